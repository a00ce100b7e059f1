"""The addresses of the API, one router per noun."""
