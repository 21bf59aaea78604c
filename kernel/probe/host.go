// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// CongestionControls returns the TCP congestion controls that the kernel has loaded, sorted. Others
// may exist as modules: see [CongestionControl].
func CongestionControls() ([]string, error) {
	content, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil, fmt.Errorf("list congestion controls: %w", err)
	}
	names := strings.Fields(string(content))
	slices.Sort(names)
	return names, nil
}

// CongestionControl probes one TCP congestion control by setting it on a socket that is then
// closed.
func CongestionControl(name string) error {
	return need{[]string{"CAP_NET_ADMIN"}, congestionOption(name)}.explain("congestion control "+name, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	}())
}

func congestionOption(name string) string {
	if name == "reno" {
		return "CONFIG_INET" // always there
	}
	return "CONFIG_TCP_CONG_" + strings.ToUpper(name)
}

// IPv6 probes whether IPv6 is enabled in a new namespace.
func IPv6() error {
	_, err := os.Stat("/proc/net/if_inet6")
	if err == nil {
		err = netns.Fresh(func() error {
			content, err := os.ReadFile("/proc/sys/net/ipv6/conf/default/disable_ipv6")
			if err == nil && strings.TrimSpace(string(content)) != "0" {
				return fault.New(fault.Testbed, "set net.ipv6.conf.default.disable_ipv6 to 0", "IPv6: switched off by a sysctl")
			}
			return err
		})
	}
	return need{namespaceCapabilities, "CONFIG_IPV6"}.explain("IPv6", err)
}

// IOAM6 probes the kernel's own IOAM transit node (RFC 9486).
func IOAM6() error {
	_, err := os.Stat("/proc/sys/net/ipv6/ioam6_id")
	return need{nil, "CONFIG_IPV6 (Linux 5.15)"}.explain("IOAM node", err)
}

// Cgroup describes the mounts of the cgroup hierarchies.
type Cgroup struct {
	Mode string // "v2", "hybrid" (v1 controllers beside a v2 tree), "v1" or "none"
	Path string // of the v2 tree; empty without one
}

// CgroupMounts returns the mode and path of the cgroup mounts of this process.
func CgroupMounts() (Cgroup, error) {
	v1, v2, err := cgroup.Mounts()
	if err != nil {
		return Cgroup{}, err
	}
	switch {
	case len(v2) > 0 && len(v1) > 0:
		return Cgroup{Mode: "hybrid", Path: v2[0]}, nil
	case len(v2) > 0:
		return Cgroup{Mode: "v2", Path: v2[0]}, nil
	case len(v1) > 0:
		return Cgroup{Mode: "v1"}, nil
	}
	return Cgroup{Mode: "none"}, nil
}

// CgroupV2 probes a mounted cgroup v2 tree, to which BPF programs attach.
func CgroupV2() error {
	groups, err := CgroupMounts()
	if err == nil && groups.Path == "" {
		err = fmt.Errorf("mode %s: %w", groups.Mode, unix.EOPNOTSUPP)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fault.Wrap(fmt.Errorf("cgroup v2: %w", err), fault.Testbed, "mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	return err
}

// Clock describes the machine's clock.
type Clock struct {
	Source string // "tsc", "kvm-clock", "hpet"
	TAI    int    // seconds that TAI is ahead of UTC; 0 if it is not set (37 since 2017)
}

// Clocks returns the clock source and the TAI offset.
func Clocks() (Clock, error) {
	content, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		return Clock{}, fmt.Errorf("find clock source: %w", err)
	}
	var state unix.Timex // no mode set: only reads
	if _, err := unix.Adjtimex(&state); err != nil {
		return Clock{}, fmt.Errorf("read clock state: %w", err)
	}
	return Clock{Source: strings.TrimSpace(string(content)), TAI: int(state.Tai)}, nil
}
