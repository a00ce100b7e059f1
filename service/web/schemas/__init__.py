"""What requests and answers hold, as pydantic models: text comes in here, and the OpenAPI document is made of them."""
