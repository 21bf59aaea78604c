// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/bpffs"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/sockets"
)

const (
	pacePin   = "link-pace"
	arrivePin = "link-arrive"
	adoptPin  = "program-adopt"
	freePin   = "program-free"
	// Marker folders: the callbacks of open sockets are enabled, for senders or for receivers.
	callbacksPace, callbacksWindow = "asked-pace", "asked-hold"
)

// pace starts pacing of local TCP senders and window control of local receivers, or stops both.
// Open connections are included if the kernel has a socket iterator.
func (h Host) pace(p *programs, paces, throttles bool) error {
	if !paces && !throttles {
		return h.Unpace()
	}
	marker, arrive := filepath.Join(h.Pins, callbacksPace), filepath.Join(h.Pins, arrivePin)
	var err error
	if throttles {
		marker = filepath.Join(h.Pins, callbacksWindow)
		err = h.attachCgroup(arrive, ebpf.AttachCGroupInetIngress, p.arrive, "throttle senders")
	} else {
		err = bpffs.Remove(arrive, filepath.Join(h.Pins, callbacksWindow))
	}
	if err == nil {
		err = h.attachCgroup(filepath.Join(h.Pins, pacePin), ebpf.AttachCGroupSockOps, p.pace, "pace senders")
	}
	if _, done := os.Stat(marker); err != nil || done == nil || probe.OpenSockets() != nil {
		return err
	}
	if err := h.enableCallbacks(); err != nil {
		return err
	}
	return bpffs.Make(marker)
}

// Cede restores the pace and windows of sockets if work leaves them to other programs.
func (h Host) Cede(w Work) error {
	if _, err := os.Stat(filepath.Join(h.Pins, arrivePin)); !w.Unpaced && (!w.Unheld || err != nil) {
		return nil
	}
	return h.Unpace()
}

// enableCallbacks enables the callbacks of open sockets.
func (h Host) enableCallbacks() error {
	if all := h.Namespaces; all != nil {
		few := h.Foreign
		if few == nil {
			few = &netns.Few{}
		}
		h.Namespaces = func(visit func(*netns.Namespace) error) error { return all(few.Of(visit)) }
	}
	return h.runIterator(adoptPin)
}

// Unpace stops pacing and restores the sockets' own pace and windows. It also handles pins of an
// earlier process.
func (h Host) Unpace() error {
	pin := filepath.Join(h.Pins, pacePin)
	if err := bpffs.Remove(filepath.Join(h.Pins, arrivePin), filepath.Join(h.Pins, callbacksPace), filepath.Join(h.Pins, callbacksWindow)); err != nil {
		return err
	}
	if _, err := os.Stat(pin); err != nil {
		return nil
	}
	if err := bpffs.Detach(pin); err != nil {
		return programNeeds.Fault("stop pacing senders", err)
	}
	if err := h.runIterator(freePin); err != nil {
		return err
	}
	return bpffs.Remove(pin)
}

// runIterator runs a pinned socket iterator in every network namespace, if the kernel could load
// it.
func (h Host) runIterator(pin string) error {
	program, err := ebpf.LoadPinnedProgram(filepath.Join(h.loaded(), pin), nil)
	if missing(err) || h.Namespaces == nil {
		return nil
	}
	if err != nil {
		return bpffs.Opening(err)
	}
	defer func() { _ = program.Close() }()
	return h.Namespaces(func(ns *netns.Namespace) error {
		return programNeeds.Fault("iterate over open connections", sockets.VisitTCP(ns, program))
	})
}

// Follow enables the callbacks of open sockets in a network namespace that was not reachable when
// pacing began.
func (h Host) Follow(ns *netns.Namespace) error {
	if _, err := os.Stat(filepath.Join(h.Pins, pacePin)); err != nil || probe.OpenSockets() != nil {
		return nil
	}
	h.Namespaces = func(each func(*netns.Namespace) error) error { return each(ns) }
	return h.enableCallbacks()
}
