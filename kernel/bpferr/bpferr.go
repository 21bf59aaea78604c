// SPDX-License-Identifier: Apache-2.0

// Package bpferr turns an error of the bpf system call into a fault: its cause selects the exit
// status and the advice.
//
// Pitfalls: the verifier returns EACCES for a program it rejects, so EACCES alone does not mean
// that a capability is missing; a non-empty verifier log shows the difference. E2BIG and ENOSPC
// come from a full map as well as from one that is too large to create.
package bpferr

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// Needs lists the requirements of a module's programs. The zero value names none beyond root.
type Needs struct {
	Capabilities string // such as "CAP_BPF and CAP_NET_ADMIN"
	Kernel       string // least version and options, such as "Linux 6.1 or later with CONFIG_DEBUG_INFO_BTF"
}

// Standard is the set of capabilities for programs that read kernel memory and attach to devices or
// cgroups.
const Standard = "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"

// errNotSupported is ENOTSUPP, an error number internal to the kernel that BPF leaks.
const errNotSupported = unix.Errno(524)

// Fault wraps err as "op: err" (as err alone if op is empty) with the exit status and the advice
// for its cause. It returns nil for nil, leaves an existing fault unchanged, and adds no status to
// a cause it does not recognise.
func (n Needs) Fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if op != "" {
		err = fmt.Errorf("%s: %w", op, err)
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return fault.Wrap(err, fault.Permission, n.privileges())
	case errors.Is(err, unix.ENOMEM):
		return fault.Wrap(err, fault.Testbed, memory)
	case Rejected(err):
		return fault.Wrap(err, fault.Testbed, n.requirement()+"; on such a kernel, report the verifier's message as a bug")
	case errors.Is(err, os.ErrPermission):
		return fault.Wrap(err, fault.Permission, n.privileges())
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSPC):
		return fault.Wrap(err, fault.Testbed, memory)
	case Unsupported(err):
		return fault.Wrap(err, fault.Testbed, n.requirement())
	}
	return err
}

const memory = "free memory, use fewer scopes or flows, or raise the limits: memory.max of the cgroup, and before Linux 5.11 ulimit -l"

// Rejected reports whether the verifier rejected a program.
func Rejected(err error) bool {
	var verifier *ebpf.VerifierError
	return errors.As(err, &verifier) && len(verifier.Log) > 0
}

// Unsupported reports whether the kernel lacks a feature. EINVAL counts: older kernels return it
// for flags, program types and helpers they do not have.
func Unsupported(err error) bool {
	for _, cause := range []error{ebpf.ErrNotSupported, unix.EOPNOTSUPP, unix.EINVAL, errNotSupported} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

func (n Needs) privileges() string {
	if n.Capabilities == "" {
		return "run it as root"
	}
	return "run it as root, or with " + n.Capabilities
}

func (n Needs) requirement() string {
	if n.Kernel == "" {
		return "run 'weir doctor' to list the features that this kernel lacks"
	}
	return "use " + n.Kernel + ", and run 'weir doctor' to list missing features"
}
