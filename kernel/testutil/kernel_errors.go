// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// KernelErrors checks that wrap, a module's wrapper for errors of the bpf system call, separates a
// verifier rejection and exhausted memory from missing privileges.
func KernelErrors(t *testing.T, wrap func(op string, err error) error) {
	t.Helper()
	for _, c := range []struct {
		name   string
		err    error
		status fault.Status
		text   string
		advice string
	}{
		{"verifier rejection", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"0: (95) exit", "unreachable insn 7"}}, fault.Testbed, "unreachable insn 7", "use Linux "},
		{"no memory", unix.ENOMEM, fault.Testbed, "cannot allocate memory", "memory.max"},
		{"no privileges", unix.EPERM, fault.Permission, "operation not permitted", "run it as root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := wrap("load programs", c.err)
			t.Logf("exit status %d: %v. Try: %s", fault.Of(err), err, fault.Advice(err))
			if fault.Of(err) != c.status || !strings.Contains(err.Error(), c.text) || !strings.Contains(fault.Advice(err), c.advice) {
				t.Errorf("%v (status %d, advice %q), want %q (status %d, advice with %q)", err, fault.Of(err), fault.Advice(err), c.text, c.status, c.advice)
			}
		})
	}
}
