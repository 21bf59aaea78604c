// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"io"

	"weir/internal/units"
	"weir/kernel/device"
	"weir/kernel/netns"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel edt edt.bpf.c

// attachEDT limits the egress of a device of a network namespace by departure times alone, like
// Cilium's bandwidth manager, until Close: a peer. The root qdisc must be fq.
func attachEDT(ns *netns.Namespace, name string, rate units.BitRate) (io.Closer, error) {
	spec, err := loadEdt()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["edt_rate"].Set(uint64(rate) / 8); err != nil {
		return nil, err
	}
	var objects edtObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	attached, err := device.Attach(ns, name, device.Egress, 1, "bench_edt", objects.Edt, device.Options{})
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return both{attached, objects.Edt}, nil
}
