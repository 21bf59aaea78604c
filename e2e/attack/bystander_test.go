// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
)

// socket is a datagram socket of a bystander.
func (s *stand) socket(b *bystander) int {
	s.Helper()
	group := cgroup.Cgroup{Path: filepath.Join(s.root, b.group)}
	if b.group == "" {
		if group.Path = filepath.Join(s.root, "nobody-"+b.scope); os.Mkdir(group.Path, 0o755) != nil {
			s.Fatal("no cgroup")
		}
	}
	inside, err := group.OpenSockets(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = inside.Close() }()
	fd, err := inside.Socket(s.here, unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		s.Fatal(err)
	}
	switch b.scope {
	case "victim":
		err = unix.Fchown(fd, victim, victim)
	case "marked":
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark)
	}
	if err := errors.Join(err, unix.Connect(fd, address([4]byte{10, 9, 0, b.to}, 5000))); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// send offers one and a half times the scope's limit, in steps, until stop. A late step's rest is
// not counted: another process had the CPU.
func (b *bystander) send(fd int, stop chan struct{}) error {
	const step, overhead = 20 * time.Millisecond, 42
	message := make([]byte, 1000)
	within := float64(b.rate) / 8 * step.Seconds() // bytes of a step
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	owed := 0.0
	for {
		select {
		case <-stop:
			return nil
		case <-ticker.C:
		}
		owed += 1.5 * within
		for ; owed > 0; owed -= float64(len(message) + overhead) {
			if _, err := unix.Write(fd, message); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EPERM) {
				return fmt.Errorf("%s: %w", b.scope, err)
			}
		}
		b.offered.Add(int64(within))
	}
}
