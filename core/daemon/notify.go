// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notify tells the service manager how the service is (sd_notify(3)); without one it does nothing.
func notify(message string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	// "@" stands for the zero octet of an abstract address, which package net knows.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(message)); err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	return nil
}

// watchdog is how often the service manager wants a sign of life: half of what it waits for; 0 if
// it wants none.
func watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	µs, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || µs <= 0 {
		return 0
	}
	return time.Duration(µs) * time.Microsecond / 2
}
