// SPDX-License-Identifier: Apache-2.0

// Package congestion reads and sets the TCP congestion control of sockets.
package congestion

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

const availableFile = "/proc/sys/net/ipv4/tcp_available_congestion_control"

// Check reports whether TCP on this host has the congestion control; "" is the host's default and
// always available. The kernel loads its module when Check sets it on a socket.
func Check(name string) error {
	if name == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("try congestion control %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return Set(fd, name)
}

// Set sets the socket's congestion control. Its error lists the available ones.
func Set(fd int, name string) error {
	if name == "" {
		return nil
	}
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fault.New(fault.Testbed, "Choose one of them, or load the module tcp_"+name+".",
			"congestion control %q is not in this kernel, which has %s", name, strings.Join(Available(), ", "))
	case errors.Is(err, unix.EPERM):
		return fault.New(fault.Permission, "Run as root, or add it to net.ipv4.tcp_allowed_congestion_control.",
			"congestion control %s: %w", name, err)
	case err != nil:
		return fmt.Errorf("set congestion control %s: %w", name, err)
	}
	return nil
}

// Of returns the name of the socket's congestion control; "" if it has none.
func Of(fd int) string {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// Available lists the loaded congestion controls, in order; empty if they are not readable.
func Available() []string {
	text, err := os.ReadFile(availableFile)
	if err != nil {
		return nil
	}
	names := strings.Fields(string(text))
	slices.Sort(names)
	return names
}
