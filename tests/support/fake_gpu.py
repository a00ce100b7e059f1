"""GPUs of files, and an nvidia-smi that reads and sets them: for this machine or for a booted node."""

from pathlib import Path

UUIDS = ("GPU-aaaa", "GPU-bbbb")
#: What a GPU says that nobody uses; the fields are those of `nvidia-smi --help-query-gpu`.
IDLE = {
    "uuid": "",
    "index": "0",
    "persistence_mode": "Enabled",
    "utilization.gpu": "0",
    "memory.used": "4",
    "mig.mode.current": "Disabled",
    "power.limit": "400.00",
    "clocks.applications.graphics": "1980",
    "clocks.applications.memory": "2619",
    "compute_mode": "Exclusive_Process",
    "pstate": "P8",
    "power.draw": "70.10",
    "temperature.gpu": "30",
}
#: What a GPU without a client falls back to when it is closed; a latched counter is at 0 again.
CLOSED = {"utilization.gpu": "0", "power.limit": "700.00", "clocks.applications.graphics": "1755"}
SMI = r"""#!/bin/bash
root=ROOT
{ printf "nvidia-smi %s\n" "$*" >>"$root/calls"; } 2>/dev/null   # a confined look writes nothing
if [ -e "$root/says" ]; then cat "$root/says"; exit "$(cat "$root/code")"; fi
one=
[ "$1" != -i ] || { one=$2; shift 2; }
if [ -e "$root/refuses" ] && grep -qxF -- "$1 ${2:-}" "$root/refuses"; then
  echo "Unable to set it for GPU $one: Unknown Error"
  exit 255
fi
close() { cp "$root/closed/"* "$root/gpus/$1/"; }
put() { echo "$3" >"$root/gpus/$1/$2"; }
case $1 in
  --query-gpu=*)
    IFS=, read -ra fields <<<"${1#*=}"
    for gpu in "$root/gpus/"${one:-*}; do
      gpu=${gpu##*/}
      [ -d "$root/gpus/$gpu" ] || { echo 'No devices were found'; exit 6; }
      row=
      for field in "${fields[@]}"; do
        IFS= read -r value <"$root/gpus/$gpu/$field"
        row+="${row:+, }$value"
      done
      echo "$row"
    done
    ;;
  --query-compute-apps=*) cat "$root/apps" ;;
  -pm)
    if [ "$2" = 1 ]; then mode=Enabled; else mode=Disabled; fi
    put "$one" persistence_mode "$mode"
    [ "$2" = 1 ] || close "$one"
    ;;
  -pl) put "$one" power.limit "$2" ;;
  -ac) put "$one" clocks.applications.memory "${2%,*}"; put "$one" clocks.applications.graphics "${2#*,}" ;;
  -c) put "$one" compute_mode "$(sed -E 's/^(.)([A-Z]*)(_?)(.?)([A-Z]*)$/\1\L\2\3\E\4\L\5/' <<<"$2")" ;;
  -mig) if [ "$2" = 1 ]; then put "$one" mig.mode.current Enabled; else put "$one" mig.mode.current Disabled; fi ;;
esac
"""


class FakeGpus:
    """Two GPUs that nobody uses, until a test says something else."""

    def __init__(self, root: Path, program: Path, *, seen_as: str | None = None) -> None:
        """Write their state below `root`, which the program finds as `seen_as`, and the program."""
        self._root = root
        for uuid in UUIDS:
            (root / "gpus" / uuid).mkdir(parents=True)
            self.set(uuid, **{**IDLE, "uuid": uuid})
        (root / "closed").mkdir()
        for field, value in CLOSED.items():
            (root / "closed" / field).write_text(f"{value}\n")
        self.apps()
        program.write_text(SMI.replace("ROOT", seen_as or str(root)))
        program.chmod(0o755)

    def set(self, gpu: str, /, **fields: str) -> None:
        """Let a GPU say something."""
        for field, value in fields.items():
            (self._root / "gpus" / gpu / field).write_text(f"{value}\n")

    def latch(self, uuid: str) -> None:
        """Let a GPU say that it is fully used."""
        self.set(uuid, **{"utilization.gpu": "100"})

    def lose(self, uuid: str) -> None:
        """Let a GPU fall off the bus."""
        (self._root / "gpus" / uuid).rename(self._root / f"lost-{uuid}")

    def apps(self, *uuids: str) -> None:
        """Let these GPUs have a process each."""
        (self._root / "apps").write_text("".join(f"{uuid}\n" for uuid in uuids))

    def refuse(self, *calls: str) -> None:
        """Let these calls fail, such as `-pm 1`."""
        (self._root / "refuses").write_text("".join(f"{call}\n" for call in calls))

    def say(self, text: str, *, code: int = 0) -> None:
        """Let nvidia-smi say only this."""
        (self._root / "code").write_text(str(code))
        (self._root / "says").write_text(f"{text}\n")

    def settings(self) -> dict[str, dict[str, str]]:
        """Return all that they say."""
        return {
            gpu.name: {file.name: file.read_text().strip() for file in sorted(gpu.iterdir())}
            for gpu in sorted((self._root / "gpus").iterdir())
        }

    def calls(self, word: str = "") -> list[str]:
        """Return the calls so far that have a word, in order."""
        log = self._root / "calls"
        return [line for line in log.read_text().splitlines() if word in line] if log.exists() else []

    def changes(self) -> list[str]:
        """Return the calls so far that set something."""
        return [
            call
            for call in self.calls()
            if any(f" {flag} " in f"{call} " for flag in ("-pm", "-pl", "-ac", "-c", "-mig"))
        ]
