"""How AWS and the executor are hurried in tests, without their windows of time: what AWS waits for may take its time.

With a pace of AWS's own a busy machine would have a fifth of the seconds in which a command is delivered and answers.
"""

from lab.ssm.state import Timing
from service.executors.ssm.tempo import Tempo

#: AWS's habits, five times as fast.
TIMING = Timing(delivery=0.04, cancel=0.04, consistency=0.06, listing=0.1)
#: It is asked as often as that, and more often than AWS would like.
TEMPO = Tempo(
    gather=0.01, look=0.08, slowest_look=1.0, fetch=0.01, throttled_look=6.0, throttled_send=0.2, consistent=1.0
)
