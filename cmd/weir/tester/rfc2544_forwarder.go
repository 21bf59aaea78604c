// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/tester/rfc2544"
	"weir/tester/rfc2544/forwarder"
	"weir/tester/spec"
)

// forwarded parses --forwarder; all results are "" without it.
func (f *rfcFlags) forwarded() (namespace, in, out string, err error) {
	if f.forwarder == "" {
		return "", "", "", nil
	}
	name, out, found := strings.Cut(f.forwarder, ",")
	namespace, in = spec.SplitDevice(name)
	if !found || namespace == "" || in == "" || out == "" {
		return "", "", "", fault.New(fault.Usage, "write it as in --forwarder dut:in,out", "--forwarder %q is not NAMESPACE:DEVICE,DEVICE", f.forwarder)
	}
	return namespace, in, out, nil
}

// forwards prepares the kernel's forwarding as the device under test of --forwarder. close, or the
// end of this process, restores it.
func (f *rfcFlags) forwards(ctx context.Context, ports *testerPorts) (device rfc2544.Device, close func() error, err error) {
	nothing := func() error { return nil }
	namespace, in, out, err := f.forwarded()
	if err != nil || namespace == "" {
		return nil, nothing, err
	}
	ns, err := ports.namespace(namespace)
	if err != nil {
		return nil, nothing, err
	}
	cpu := runtime.NumCPU() - 1
	for cpu > 0 && slices.Contains(f.cpus, cpu) {
		cpu--
	}
	if slices.Contains(f.cpus, cpu) {
		return nil, nothing, fault.New(fault.Usage, "leave a CPU to the device under test", "--cpus %v are all CPUs", f.cpus)
	}
	borrowed, err := forwarder.Borrow(ctx, ns, in, out, cpu)
	if err != nil {
		return nil, nothing, err
	}
	return borrowed, borrowed.Close, nil
}
