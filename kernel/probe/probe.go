// SPDX-License-Identifier: Apache-2.0

// Package probe tests features of the running kernel by using them.
//
// A probe returns nil if the feature is available. Otherwise its error is a fault: with status
// Testbed if the kernel lacks the feature, and then the advice names the kernel option or version;
// with status Permission if this process may not try. Probes run in their own network namespaces,
// take a few milliseconds and leave nothing behind except modules that the kernel loads on demand.
package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// need holds the requirements of a feature: capabilities, and the kernel option.
type need struct {
	capabilities []string
	option       string // "CONFIG_X", with its first version: "CONFIG_X (Linux 6.6)"
}

// explain converts a probe's error into the missing requirement.
func (n need) explain(feature string, err error) error {
	if err == nil {
		return nil
	}
	if missing := lacking(n.capabilities); refused(err) && len(missing) > 0 {
		return fault.Wrap(fmt.Errorf("%s: needs %s: %w", feature, strings.Join(missing, " and "), err),
			fault.Permission, "run as root, or grant "+strings.Join(missing, " and "))
	}
	if (refused(err) || errors.Is(err, unix.EAFNOSUPPORT)) && SeccompFilter() { // systemd's RestrictAddressFamilies=
		return fault.Wrap(fmt.Errorf("%s: rejected by a seccomp filter, as set by container runtimes: %w", feature, err),
			fault.Permission, "allow the system call in the container's seccomp profile, or run outside the container")
	}
	if errors.Is(err, unix.ENOSYS) && SeccompFilter() {
		return fault.Wrap(fmt.Errorf("%s: the system call is missing, or hidden by a seccomp filter: %w", feature, err),
			fault.Testbed, "run outside the container, or use a kernel with "+n.option)
	}
	if refused(err) && inUserNamespace() {
		return fault.Wrap(fmt.Errorf("%s: capabilities of a user namespace do not count for it: %w", feature, err),
			fault.Permission, "run it as the host's root, outside the user namespace")
	}
	if refused(err) {
		return fault.Wrap(fmt.Errorf("%s: rejected by the kernel although the process has every required capability: %w", feature, err),
			fault.Testbed, "look for a security module or kernel lockdown, and for "+n.option)
	}
	return fault.Wrap(fmt.Errorf("%s: needs %s: %w", feature, n.option, err), fault.Testbed, "use a kernel with "+n.option)
}

// inUserNamespace reports whether the process is outside the initial user namespace, which maps all
// ids to themselves (user_namespaces(7)).
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

func refused(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// inNamespace runs a probe in a fresh namespace with an rtnetlink connection to it.
func inNamespace(f func(*rtnl.Conn) error) error {
	return netns.Fresh(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		return f(conn)
	})
}

// onVeth runs a probe in a fresh namespace with the veth pair a-b, both ends up, and passes the
// index of a.
func onVeth(f func(index int) error) error {
	return inNamespace(func(conn *rtnl.Conn) error {
		if err := conn.AddVeth("a", nil, "b", 0); err != nil {
			return err
		}
		for _, dev := range []string{"a", "b"} {
			if err := conn.SetUp(dev); err != nil {
				return err
			}
		}
		device, err := conn.Device("a")
		if err != nil {
			return err
		}
		return f(device.Index)
	})
}

// Namespaces probes network namespaces.
func Namespaces() error {
	return need{namespaceCapabilities, "CONFIG_NET_NS"}.explain("network namespaces", netns.Fresh(func() error { return nil }))
}

// Veth probes pairs of virtual Ethernet devices.
func Veth() error {
	return need{namespaceCapabilities, "CONFIG_VETH"}.explain("veth devices", onVeth(func(int) error { return nil }))
}

var (
	namespaceCapabilities = []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}
	bpfCapabilities       = []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_BPF"}
)
