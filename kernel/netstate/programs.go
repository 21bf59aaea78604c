// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// programs reads the BPF programs attached to devices by TCX and to the namespace.
func (r *reader) programs() error {
	for index, name := range r.names {
		for where, attach := range map[string]ebpf.AttachType{"ingress": ebpf.AttachTCXIngress, "egress": ebpf.AttachTCXEgress} {
			if err := r.query("TCX programs of "+name+" at "+where, link.QueryOptions{Target: index, Attach: attach}); err != nil {
				return err
			}
		}
	}
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	for where, attach := range map[string]ebpf.AttachType{"flow dissector": ebpf.AttachFlowDissector, "socket lookup": ebpf.AttachSkLookup} {
		if err := r.query("BPF programs of the "+where, link.QueryOptions{Target: int(own.Fd()), Attach: attach}); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) query(what string, options link.QueryOptions) error {
	found, err := link.QueryPrograms(options)
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return nil // no such hook, or never used
	case err != nil:
		return fmt.Errorf("list %s: %w", what, err)
	}
	var ids []ebpf.ProgramID
	for _, p := range found.Programs {
		ids = append(ids, p.ID)
	}
	if len(ids) == 0 && found.Revision <= 1 {
		return nil
	}
	r.state[what] = fmt.Sprintf("%v, revision %d", ids, found.Revision)
	return nil
}
