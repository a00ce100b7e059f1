"""What the service answers instead of a result."""


class Refusal(Exception):
    """An error answer: its code, its words and its HTTP status (400 for all of the model's client errors)."""

    def __init__(self, code: str, message: str = "", *, status: int = 400) -> None:
        """Name the error as the service does."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def throttled() -> Refusal:
    """Give the answer to a call too many; it is in no model (boto/botocore#993, aws/aws-rfdk#1723)."""
    return Refusal("ThrottlingException", "Rate exceeded")


def internal() -> Refusal:
    """Give the answer of a service that broke."""
    return Refusal("InternalServerError", "An error occurred on the server side.", status=500)
