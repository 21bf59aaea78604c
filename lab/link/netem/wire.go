// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"fmt"

	"weir/kernel/bpferr"
	"weir/kernel/bpfmap"
	"weir/kernel/device"
	"weir/kernel/netns"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -target bpfel wire redirect.bpf.c

// wire moves every frame from one device's ingress to another one's egress.
type wire struct {
	objects wireObjects
	program *device.Attachment
}

// newWire starts moving frames from the device named from to the one with the index to.
func newWire(ns *netns.Namespace, from string, to int, by device.Mechanism) (*wire, error) {
	spec, err := loadWire()
	if err != nil {
		return nil, fmt.Errorf("load redirect program: %w", err)
	}
	if err := spec.Variables["target"].Set(uint32(to)); err != nil {
		return nil, fmt.Errorf("load redirect program: %w", err)
	}
	w := &wire{}
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return nil, programNeeds.Fault("load redirect program", err)
	}
	w.program, err = device.Attach(ns, from, device.Ingress, 0, "netem", w.objects.Wire, device.Options{Mechanism: by})
	if err != nil {
		_ = w.objects.Close()
		return nil, fmt.Errorf("attach redirect program: %w", err)
	}
	return w, nil
}

// received is how many frames have come in.
func (w *wire) received() (sum uint64, err error) {
	if sum, err = bpfmap.Sum[uint64](w.objects.Received, uint32(0)); err != nil {
		return 0, fmt.Errorf("read frame counter: %w", err)
	}
	return sum, nil
}

func (w *wire) close() {
	_ = w.program.Close()
	_ = w.objects.Close()
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later"}
