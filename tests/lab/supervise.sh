# Runs outside, once for each guest: boots it, boots it again if it asks for a reboot, and kills it after the tests.
#
# Standard input is a pipe that only the test process holds open. Expects in the environment what boot.sh expects.
set -u
echo 0 >"$CGROUP/supervisor/cgroup.procs"
exec 9</proc/self/ns/net 8<&0 </dev/null

# The pipe ends when the test process ends, however it ends: nothing of the guest outlives it.
(cat <&8 >/dev/null; echo 1 >"$CGROUP/cgroup.kill") &
exec 8<&-

while :; do
  # The kernel removes the cable of the boot before some time after its namespace has gone.
  while ip link delete "$CABLE" 2>/dev/null; do :; done
  unshare --fork --kill-child --pid --mount --uts --ipc --net --propagation private \
    bash -euc 'echo 0 >"$CGROUP/guest/cgroup.procs"; exec unshare --cgroup bash -eu "$BOOT"'
  # A guest that reboots ends its first process with SIGHUP (128 + 1); any other end is a power-off.
  [ $? -eq 129 ] || break
done
touch "$STATE/off"
