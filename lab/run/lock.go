// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/instance"
)

// lockMachine waits until no other lab on this machine measures, and holds the lock until release
// is called: two concurrent labs would falsify each other's figures. It calls waiting once if
// another lab holds the lock.
func lockMachine(ctx context.Context, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(instance.Root(), 0o755); err != nil {
		return nil, fmt.Errorf("lock the machine for a lab: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(instance.Root(), ".turn"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the machine for a lab: %w", err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for first := true; ; first = false {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the machine for a lab: %w", err), file.Close())
		}
		if first {
			waiting()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		}
	}
}
