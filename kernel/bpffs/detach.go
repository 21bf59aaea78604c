// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/link"
)

// Detach detaches a pinned link at once and keeps the pin. A link that is gone counts as detached.
// Linux before 5.10 detaches only with the last reference, some time later.
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
