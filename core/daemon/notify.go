// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notify reports the state of the service to the service manager (sd_notify(3)), if there is one.
func notify(message string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	// Package net converts "@" to the zero byte of an abstract address.
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

// watchdog returns half of the watchdog interval of the service manager; 0 without a watchdog.
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
