# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of node_runner.sh, which this is part of
# How a script that only reads is confined by the kernel, so that it cannot touch what it looks at.
#
# Sent behind node_runner.sh. Bash makes no system calls, so a short program in perl or python makes them, one after
# the other, and becomes the script: its pid stays. What did not hold is written into the record `unconfined`.
# Nothing here touches the path of a mount, since one that is stuck would keep whoever touches it: one
# mount_setattr(2) on the root makes every mount of a namespace of the script's own read-only.
#
# On a node the script becomes a user that owns nothing, and keeps the capabilities that only read. Read-only mounts alone
# would not do: through /proc/1/root lie those of everybody else, and a root without any capability may still write
# root's files. On a controller the user is kept, since Slurm shows users less than root; there the script gets PIDs and a
# /proc of its own instead.

# shellcheck disable=SC2016 # the variables are perl's
confine_perl='
my ($file, $must, $said, $count) = splice @ARGV, 0, 4;
my $from = readlink "/proc/self/ns/mnt";
my ($uid, $gid) = ($>, $) + 0);
my (%bad, @kept, $child);
open my $record, "+<", $file or exit 126;
sub put { open my $to, ">", $_[0] or return -1; syswrite($to, $_[1]) ? 0 : -1 }
sub argument {
  my $text = shift;
  return pack "H*", $1 if $text =~ /^x(.*)/;
  return "$1\0" if $text =~ /^=(.*)/;
  return 0 + $text unless $text =~ /^p(.*)/;
  push @kept, pack "H*", $1;
  pack "Sx6P", length($kept[-1]) / 8, $kept[-1];
}
for (splice @ARGV, 0, $count) {
  my ($name, $after, $call, @given) = split / /;
  next if $bad{$name} || $bad{$after};
  my $done = 0;
  if ($call eq "differs") {
    $! = 1;
    $done = -1 if $from eq readlink "/proc/self/ns/mnt";
  } elsif ($call eq "map") {
    put("/proc/self/setgroups", "deny");
    $done = -1 if put("/proc/self/uid_map", "$uid $uid 1") || put("/proc/self/gid_map", "$gid $gid 1");
  } elsif ($call eq "fork") {
    $child = fork;
    if ($child) {
      waitpid $child, 0;
      my $how = $?;
      exit $how >> 8 unless $how & 127;
      $SIG{$_} = "DEFAULT" for keys %SIG;
      kill $how & 127, $$;
      exit 128 + ($how & 127);
    }
    $done = -1 unless defined $child;
  } else {
    my @args = map { argument($_) } @given;
    $done = syscall $call + 0, @args;
  }
  $bad{$name} ||= ($! + 0 || 1) . "" if $done < 0;
}
my @short = map { "$_:$bad{$_}" } sort keys %bad;
unshift @short, $said if $said;
if (@short) {
  unshift @short, "refused" if $must;
  syswrite $record, sprintf "%-95.95s\n", "@short";
  exit 126 if $must;
}
exec { $ARGV[0] } @ARGV;
exit 126;
'

confine_python='
import ctypes, os, signal, struct, sys
file, must, said, count = sys.argv[1:5]
operations, command = sys.argv[5:5 + int(count)], sys.argv[5 + int(count):]
where, uid, gid = os.readlink("/proc/self/ns/mnt"), os.geteuid(), os.getegid()
bad, kept = {}, []
record = os.open(file, os.O_WRONLY)
call = ctypes.CDLL(None, use_errno=True).syscall
call.restype = ctypes.c_long
def put(path, text):
    to = os.open(path, os.O_WRONLY)
    os.write(to, text.encode())
    os.close(to)
def argument(text):
    if text[0] == "=":
        return ctypes.c_char_p(text[1:].encode())
    if text[0] not in "xp":
        return ctypes.c_long(int(text))
    data = bytes.fromhex(text[1:])
    kept.append(ctypes.create_string_buffer(data, len(data)))
    if text[0] == "p":
        data = struct.pack("HxxxxxxQ", len(data) // 8, ctypes.addressof(kept[-1]))
        kept.append(ctypes.create_string_buffer(data, len(data)))
    return kept[-1]
def follow(child):
    how = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(how):
        number = os.WTERMSIG(how)
        number in (9, 19) or signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(how))
def one(number, given):
    if number == "differs":
        return 1 if where == os.readlink("/proc/self/ns/mnt") else 0
    if number == "map":
        put("/proc/self/setgroups", "deny")
        put("/proc/self/uid_map", "%d %d 1" % (uid, uid))
        put("/proc/self/gid_map", "%d %d 1" % (gid, gid))
        return 0
    if number == "fork":
        child = os.fork()
        child and follow(child)
        return 0
    done = call(ctypes.c_long(int(number)), *[argument(text) for text in given])
    return 0 if done >= 0 else ctypes.get_errno() or 1
for line in operations:
    name, after, number, *given = line.split(" ")
    if name in bad or after in bad:
        continue
    try:
        failed = one(number, given)
    except OSError as error:
        failed = error.errno or 1
    if failed:
        bad[name] = failed
short = ([said] if said else []) + ["%s:%d" % item for item in sorted(bad.items())]
if short:
    short = ["refused"] * bool(must) + short
    os.write(record, ("%-95.95s\n" % " ".join(short)).encode())
    must and os._exit(126)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(command[0], command)
'

# A group that nobody is in, for each script its own, by the pid, which is below 2^22: above the ranges of accounts,
# containers and directory services (systemd, docs/UIDS-GIDS.md; sssd-ldap(5), ldap_idmap_range_max).
first_id=2100000000
# The end of a filter of system calls that answers EPERM, or ENOSYS; see filter.h and seccomp(2).
deny=0600000001000500 deny_unknown=0600000026000500 allow=060000000000ff7f

# Set $inside to what stands before a script that only reads; leave it empty where nothing can, and say so in the record.
confine_script() {
  local python=/usr/libexec/platform-python said='' must='' forbidden machine foreign user operations=()
  local -A calls
  [ "$confine" != required ] || must=must
  if hash perl; then
    inside=("${BASH_CMDS[perl]}" -e "$confine_perl")
  elif hash python3; then
    inside=("${BASH_CMDS[python3]}" -I -S -c "$confine_python")
  elif [ -x "$python" ]; then
    inside=("$python" -I -S -c "$confine_python")
  else
    said=interpreter:2
  fi
  list_calls || said=${said:-machine:38}
  if [ -n "$said" ]; then
    inside=()
    record unconfined ${must:+refused} "$said"
    [ -z "$must" ] || exit 126
    return 0
  fi
  if [ -n "$keeps_user" ]; then
    keep_user
  elif ((EUID)); then
    said=login:1
  else
    find_user
    change_user "$user" "$((first_id + BASHPID))"
  fi
  filter_calls
  inside+=("$dir/unconfined" "$must" "$said" "${#operations[@]}" "${operations[@]}")
} 2>/dev/null

# Set $calls to the numbers of the system calls that are made here, $forbidden to those that a script may not make.
list_calls() {
  case ${HOSTTYPE:-} in
    x86_64)
      machine=3e0000c0 foreign=3500000100000040$deny # the numbers of x32
      calls=([prctl]=157 [seccomp]=317 [capset]=126 [setresuid]=117 [setresgid]=119 [setgroups]=116 [fchownat]=260
        [mount]=165 [unshare]=272 [close]=3 [openat]=257 [clone]=56 [ioctl]=16 [syslog]=103 [mkdirat]=258 [mknodat]=259)
      forbidden='101 310 311 312 165 166 155 308 272 175 313 176 246 320 169 167 168 170 171 164 227 321 298 323 248
        249 250 304 163 179 172 173 65 220 30 69 70 240 241 300 256 279 153 29 31 64 66 68 71'
      ;;
    aarch64)
      machine=b70000c0 foreign=''
      calls=([prctl]=167 [seccomp]=277 [capset]=91 [setresuid]=147 [setresgid]=149 [setgroups]=159 [fchownat]=54
        [mount]=40 [unshare]=97 [close]=57 [openat]=56 [clone]=220 [ioctl]=29 [syslog]=116 [mkdirat]=34 [mknodat]=33)
      forbidden='117 270 271 272 40 39 41 268 97 105 273 106 104 294 142 224 225 161 162 170 112 280 241 282 217
        218 219 265 89 60 193 192 196 189 188 180 181 262 238 239 58 186 187 190 191 194 195'
      ;;
    *) return 1 ;;
  esac
  # From 424 on the numbers are those of every machine.
  calls[mount_setattr]=442
  forbidden+=' 425 426 427 428 429 430 431 432 433 438 440 442 443 467'
}

# Add a system call: NAME is for the record, and it is left out when NAME or AFTER did not hold.
call() { operations+=("$1 $2 ${calls[$3]:-$3} ${*:4}"); }

# Add a namespace in which every mount is read-only, but for the script's own targets and the folder in which it finds
# them, which is for what is temporary. /tmp stays as it is, to be looked at: a script that finds nothing there would not know that it was hidden.
own_mounts() {
  call ns ns unshare "$1"
  ((EUID == 0)) || call ns ns map
  call ns ns differs
  call ns ns mount 0 =/ 0 540672 0                      # MS_REC, MS_SLAVE: what is unmounted outside goes here too
  call tmp ns mkdirat -100 "=$dir/tmp" 448
  call tmp ns mount =unstick-look "=$dir/tmp" =tmpfs 14 =size=16m,nr_inodes=4096,mode=1777
  call targets tmp mknodat -100 "=$dir/tmp/targets" 33152 0
  call targets tmp mount "=$dir/targets" "=$dir/tmp/targets" 0 4096 0
  call mounts ns mount_setattr -100 =/ 32768 x0100000000000000000000000000000000000800000000000000000000000000 32
  call targets mounts mount_setattr -100 "=$dir/tmp/targets" 0 x0000000000000000010000000000000000000000000000000000000000000000 32
  call tmp mounts mount_setattr -100 "=$dir/tmp" 0 x0000000000000000010000000000000000000000000000000000000000000000 32
  [ -z "$keeps_user" ] || ((EUID)) || own_devices
  # The input was opened by a path that may be written to.
  call input ns close 0
  call input ns openat -100 =/dev/null 0 0
  export TMPDIR="$dir/tmp" UNSTICK_TARGETS="$dir/tmp/targets"
}

# Add that root opens no device but these, which every user may write to: a disc is written to on a read-only mount too.
own_devices() {
  local device
  for device in null zero full random urandom tty; do
    [ ! -c "/dev/$device" ] || call devices mounts mount "=/dev/$device" "=/dev/$device" 0 4096 0
  done
  call devices mounts mount_setattr -100 =/ 32768 x0400000000000000000000000000000000000000000000000000000000000000 32
  for device in null zero full random urandom tty; do
    [ ! -c "/dev/$device" ] || call devices mounts mount_setattr -100 "=/dev/$device" 0 x0000000000000000040000000000000000000000000000000000000000000000 32
  done
}

# Add the change to a user that owns nothing and may look at everything.
change_user() {
  local number groups
  own_mounts 131072
  call user user fchownat -100 "=$dir/tmp/targets" "$1" "$2" 0
  find_groups
  call user user setgroups "$((${#groups} / 8))" "x$groups"
  # PR_SET_SECUREBITS, SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP: capabilities outlive the change, and access(2), by which
  # a shell finds programs and `test -r` asks, counts them; for a user that is not root it would leave them out.
  call user user prctl 28 15 0 0 0
  call user user setresgid "$2" "$2" "$2"
  call user user setresuid "$1" "$1" "$1"
  # CAP_DAC_READ_SEARCH, CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SYSLOG
  keep_capabilities 2 18 19 34
}

# Add that of its capabilities the script keeps these, as far as it has them: root in a container may not have all.
keep_capabilities() {
  local status='' number low=0 high=0 hex kept=()
  IFS= read -r -d '' status </proc/self/status
  [[ $status =~ CapPrm:[[:space:]]*([0-9a-f]+) ]]
  for number; do
    ((16#${BASH_REMATCH[1]} >> number & 1)) || continue
    kept+=("$number")
    ((number < 32 ? (low |= 1 << number) : (high |= 1 << number - 32)))
  done
  printf -v hex %08x%08x "$low" "$high"
  low=${hex:6:2}${hex:4:2}${hex:2:2}${hex:0:2} high=${hex:14:2}${hex:12:2}${hex:10:2}${hex:8:2}
  call user user capset x2205082000000000 "x$low$low$low$high$high$high"
  for number in "${kept[@]}"; do
    call user user prctl 47 2 "$number" 0 0             # PR_CAP_AMBIENT_RAISE
  done
}

# Set $groups to the groups of what the script may talk to: a socket takes whoever may write to it. By itself none; the
# group of the sockets of containers is mostly root's, to which little else gives anything.
find_groups() {
  local socket group hex
  groups=''
  [[ " $reads " == *' containers '* ]] || return 0
  for socket in /run/containerd/containerd.sock /run/crio/crio.sock; do
    group=$(stat -Lc %g "$socket") || continue
    printf -v hex %08x "$group"
    groups+=${hex:6:2}${hex:4:2}${hex:2:2}${hex:0:2}
  done
} 2>/dev/null

# Add PIDs and a /proc of the script's own; its user stays, and keeps no capability but to read.
keep_user() {
  local socket
  own_mounts "$((EUID ? 805437440 : 537001984))"        # CLONE_NEWNS and CLONE_NEWPID, CLONE_NEWUSER
  if ((EUID == 0)); then # there root may ask these to act
    for socket in /run/dbus /run/containerd /run/crio /run/podman; do
      [ ! -d "$socket" ] || call sockets ns mount =unstick-look "=$socket" =tmpfs 15 =size=4k
    done
    for socket in /run/systemd/private /run/docker.sock; do
      [ ! -S "$socket" ] || call sockets ns mount =/dev/null "=$socket" 0 4096 0
    done
  fi
  call ns ns fork
  call ns ns prctl 1 9 0 0 0                            # PR_SET_PDEATHSIG
  call proc ns mount =proc =/proc =proc 15 0
  if ((EUID == 0)); then
    call user user prctl 28 3 0 0 0                     # PR_SET_SECUREBITS: root is given no capability for its name
    keep_capabilities 2
  fi
}

# Add the filter of system calls, and that no program gives new rights.
filter_calls() {
  local number hex filter=2000000004000000
  filter+=15000100$machine$deny
  filter+=2000000000000000$foreign
  for number in $forbidden; do
    printf -v hex %04x "$number"
    filter+=15000001${hex:2}${hex:0:2}0000$deny
  done
  filter+=15000001b3010000$deny_unknown                # clone3: the C library then takes clone, whose flags can be seen
  printf -v hex %04x "${calls[clone]}"
  filter+=15000004${hex:2}${hex:0:2}0000'2000000010000000450000010000027e'$deny$allow # with a namespace of any kind
  # CAP_SYSLOG reads the kernel's log, and clears it: SYSLOG_ACTION_READ_ALL and the two that ask for a size are let in.
  printf -v hex %04x "${calls[syslog]}"
  filter+=15000006${hex:2}${hex:0:2}0000'2000000010000000'
  filter+='15000300030000001500020009000000150001000a000000'$deny$allow
  printf -v hex %04x "${calls[ioctl]}"
  filter+=15000007${hex:2}${hex:0:2}0000'2000000018000000'
  # What acts for whoever may open it to read: TIOCSTI, and those of IPMI, of loop devices and of discs.
  filter+='15000400125400005400000000ff0000'             # TIOCSTI; else the letter of a kind
  filter+='150002000069000015000100004c00001500000100530000'$deny
  filter+=$allow
  call privileges privileges prctl 38 1 0 0 0
  call filter privileges seccomp 1 0 "p$filter"
}

# Set $user to one that owns nothing and runs nothing, but is known: dbus-daemon hangs up on a user without an entry, so
# that systemd and logind would not answer. Debian and Red Hat have games for programs that neither starts by itself.
find_user() {
  local name number
  user=$((first_id + BASHPID))
  while IFS=: read -r name _ number _; do
    [ "$name" != games ] || user=$number
  done </etc/passwd
} 2>/dev/null

# End what a script that has ended leaves behind: all that is in its group, which is no other script's.
end_rest() {
  local turn entry text found group=$((first_id + $1))
  [ -z "$keeps_user" ] && ((EUID == 0)) || return 0
  for turn in {1..20}; do
    found=$(exec grep -lsE "^Gid:[[:space:]]+${group}[[:space:]]" /proc/[0-9]*/status)
    [ -n "$found" ] || return 0
    for entry in $found; do
      text=''
      IFS= read -r -d '' text <"$entry"
      [[ ! $text =~ Gid:[[:space:]]+${group}[[:space:]] ]] || kill -KILL "${entry//[!0-9]/}"
    done
  done
} 2>/dev/null
