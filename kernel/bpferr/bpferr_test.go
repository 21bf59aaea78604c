// SPDX-License-Identifier: Apache-2.0

package bpferr

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

func TestTheCauseSelectsStatusAndAdvice(t *testing.T) {
	needs := Needs{Capabilities: "CAP_BPF", Kernel: "Linux 6.1 or later"}
	rejected := func(cause error) error {
		return fmt.Errorf("program p: %w", &ebpf.VerifierError{Cause: cause, Log: []string{"0: exit", "R0 !read_ok"}})
	}
	for _, c := range []struct {
		name   string
		err    error
		status fault.Status
		advice string
	}{
		{"EPERM", unix.EPERM, fault.Permission, "run it as root, or with CAP_BPF"},
		{"EPERM without a verifier log", &ebpf.VerifierError{Cause: unix.EPERM}, fault.Permission, "run it as root"},
		{"EACCES", unix.EACCES, fault.Permission, "run it as root"},
		{"EACCES from the verifier", rejected(unix.EACCES), fault.Testbed, "use Linux 6.1 or later"},
		{"EINVAL from the verifier", rejected(unix.EINVAL), fault.Testbed, "report the verifier's message"},
		{"E2BIG from the verifier", rejected(unix.E2BIG), fault.Testbed, "report the verifier's message"},
		{"ENOMEM", unix.ENOMEM, fault.Testbed, "memory.max"},
		{"ENOMEM from the verifier", rejected(unix.ENOMEM), fault.Testbed, "memory.max"},
		{"E2BIG", unix.E2BIG, fault.Testbed, "ulimit -l"},
		{"ENOSPC", unix.ENOSPC, fault.Testbed, "memory.max"},
		{"unsupported feature", fmt.Errorf("map: %w", ebpf.ErrNotSupported), fault.Testbed, "use Linux 6.1 or later"},
		{"EOPNOTSUPP", unix.EOPNOTSUPP, fault.Testbed, "use Linux 6.1 or later"},
		{"ENOTSUPP", unix.Errno(524), fault.Testbed, "use Linux 6.1 or later"},
		{"EINVAL", unix.EINVAL, fault.Testbed, "weir doctor"},
		{"other", unix.ENODEV, fault.Failed, ""},
		{"fault", fault.New(fault.Usage, "keep", "bad"), fault.Usage, "keep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := needs.Fault("load program", c.err)
			if fault.Of(err) != c.status || !strings.Contains(fault.Advice(err), c.advice) || (c.advice == "") != (fault.Advice(err) == "") {
				t.Errorf("status %d, advice %q", fault.Of(err), fault.Advice(err))
			}
			if !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), "load program: ") {
				t.Errorf("error %q lost its operation or cause", err)
			}
		})
	}
	if err := needs.Fault("load program", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestAVerifierRejectionShowsTheLastLine(t *testing.T) {
	err := Needs{}.Fault("load program", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"0: exit", "invalid access to map value", "processed 3 insns"}})
	if !strings.Contains(err.Error(), "invalid access to map value") {
		t.Errorf("error %q lacks the verifier's last line", err)
	}
}
