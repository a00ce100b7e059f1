"""A stand-in of AWS SSM Run Command that boto3 talks to and that really runs what is sent to it."""

from lab.ssm.calls import Call
from lab.ssm.faults import Faults, Moment, Outcome
from lab.ssm.instance import Instance
from lab.ssm.server import SsmServer
from lab.ssm.state import Timing

__all__ = ["Call", "Faults", "Instance", "Moment", "Outcome", "SsmServer", "Timing"]
