// SPDX-License-Identifier: Apache-2.0

// Package listen opens the unix sockets of long-running commands. Its errors name the flag
// --socket.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// Unix listens on a socket (unix or unixpacket) with mode 0600 in an existing folder. It replaces
// the socket of a killed process.
func Unix(network, path string) (net.Listener, error) {
	if info, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, fault.New(fault.Usage, "make it, or name another path with --socket", "the folder of --socket %s is missing", path)
	}
	if most := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fault.New(fault.Usage, "name a shorter path with --socket", "--socket %s has %d bytes; the path of a socket has at most %d", path, len(path), most)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fault.New(fault.Usage, "name another path with --socket", "%s exists and is no socket", path)
		}
		if conn, err := net.Dial(network, path); err == nil {
			_ = conn.Close()
			return nil, fault.New(fault.Failed, "stop that process, or name another path with --socket", "another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	// The file gets the mode that the socket has before bind (unix(7)), so no other user can
	// connect in between.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		if err := raw.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return chmod
	}}
	listener, err := config.Listen(context.Background(), network, path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}
