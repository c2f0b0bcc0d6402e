# Becomes PID 1 of a guest: in new namespaces, it builds the guest's root file system and network, then starts its init.
#
# STATE   the guest's directory outside: upper, work, root, binds
# LOWER   layers of the disk, top one first, joined by colons
# CABLE, BRIDGE, ADDRESS, MAC   the guest's network; descriptor 9 is the network namespace outside
# DROP    capabilities that would affect the machine outside
# INIT    program of PID 1
read -r outer _ </proc/self/stat
root=$STATE/root
safe=nosuid,nodev,noexec

plug_in() {
  ip link add eth0 address "$MAC" type veth peer name "$CABLE" netns /proc/self/fd/9
  nsenter --net=/proc/self/fd/9 ip link set "$CABLE" master "$BRIDGE" up
  exec 9<&-
  ip address add "$ADDRESS/24" dev eth0
  ip link set eth0 up
  ip link set lo up
}

mount_disk() { # redirect_dir: without it, renaming a directory of a lower layer is refused
  mount -t overlay overlay -o "redirect_dir=on,lowerdir=$LOWER,upperdir=$STATE/upper,workdir=$STATE/work" "$root"
}

mount_kernel() { # the kernel is the machine's own: all of its knobs but the network's are read-only
  mount -t proc -o $safe proc "$root/proc"
  mount -t sysfs -o ro,$safe sysfs "$root/sys"
  for path in "$root"/proc/{sys,irq,bus}; do
    mount --bind "$path" "$path"
    mount -o remount,bind,ro "$path"
  done
  mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
  mount -o remount,bind,rw,$safe "$root/proc/sys/net"
  cat "$root/proc/sys/kernel/random/uuid" >"$STATE/boot_id"
  mount --bind "$STATE/boot_id" "$root/proc/sys/kernel/random/boot_id"
  mount -t cgroup2 -o $safe cgroup2 "$root/sys/fs/cgroup"
}

make_devices() {
  mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/dev"
  mkdir "$root/dev/pts" "$root/dev/shm"
  while read -r name major minor; do
    mknod -m 666 "$root/dev/$name" c "$major" "$minor"
  done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0'
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  ln -s fd/0 "$root/dev/stdin"
  ln -s fd/1 "$root/dev/stdout"
  ln -s fd/2 "$root/dev/stderr"
  mount -t tmpfs -o nosuid,nodev tmpfs "$root/dev/shm"
  mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs "$root/run"
}

mount_binds() { # lines of STATE/binds: source:target, and :rw to make it writable
  while IFS=: read -r source target mode; do
    if [ -d "$source" ]; then
      mkdir -p "$root$target"
    else
      mkdir -p "$(dirname "$root$target")"
      touch "$root$target"
    fi
    mount --bind "$source" "$root$target"
    [ "$mode" = rw ] || mount -o remount,bind,ro "$root$target"
  done <"$STATE/binds"
}

plug_in
mount_disk
mount_kernel
make_devices
mount_binds
echo "$outer" >"$STATE/pid"
mkdir -p "$root/.outside"
cd "$root"
pivot_root . .outside
umount -l /.outside
rmdir /.outside
exec env -i container=holdfast-lab PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set "$DROP" "$INIT"
