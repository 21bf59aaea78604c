// SPDX-License-Identifier: Apache-2.0

// Package sockets runs BPF iterators over the open sockets of network namespaces.
package sockets

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/kernel/netns"
)

// ErrNoIterator is returned if the kernel cannot iterate over sockets (iter/tcp needs Linux 5.9
// with BTF).
var ErrNoIterator = errors.New("this kernel cannot iterate over open sockets with BPF (iter/tcp)")

// VisitTCP runs an iterator over every TCP socket of a namespace. The error is ErrNoIterator if
// program is nil because the kernel could not load it.
func VisitTCP(ns *netns.Namespace, program *ebpf.Program) error {
	if program == nil {
		return ErrNoIterator
	}
	return ns.Do(func() error {
		attached, err := link.AttachIter(link.IterOptions{Program: program})
		if err != nil {
			return fmt.Errorf("iterate over sockets: %w", err)
		}
		defer func() { _ = attached.Close() }()
		reader, err := attached.Open()
		if err != nil {
			return fmt.Errorf("iterate over sockets: %w", err)
		}
		defer func() { _ = reader.Close() }()
		if _, err := io.Copy(io.Discard, reader); err != nil {
			return fmt.Errorf("iterate over sockets: %w", err)
		}
		return nil
	})
}
