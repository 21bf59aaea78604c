// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/link"
)

// Detach ends a pinned attachment at once; the pin stays. What has gone meanwhile has ended; Linux
// before 5.10 knows no other way than its last reference, which the kernel sees to in its own time.
func Detach(pin string) error {
	attached, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open attachment: %w", err)
	}
	defer func() { _ = attached.Close() }()
	if err := attached.Detach(); err != nil && !errors.Is(err, link.ErrNotSupported) {
		return fmt.Errorf("detach: %w", err)
	}
	return nil
}
