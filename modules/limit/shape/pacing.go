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
	// Folders that say that open sockets were asked for their callbacks: of senders, of receivers.
	askedPace, askedHold = "asked-pace", "asked-hold"
)

// pace has TCP senders of this host paced, and who sends to its sockets held, those whose
// connections are open too where the kernel can ask for their callbacks, or ends that.
func (h Host) pace(p *programs, paces, holds bool) error {
	if !paces && !holds {
		return h.Unpace()
	}
	asked, arrive := filepath.Join(h.Pins, askedPace), filepath.Join(h.Pins, arrivePin)
	var err error
	if holds {
		asked = filepath.Join(h.Pins, askedHold)
		err = h.attachCgroup(arrive, ebpf.AttachCGroupInetIngress, p.arrive, "hold senders")
	} else {
		err = bpffs.Remove(arrive, filepath.Join(h.Pins, askedHold))
	}
	if err == nil {
		err = h.attachCgroup(filepath.Join(h.Pins, pacePin), ebpf.AttachCGroupSockOps, p.pace, "pace senders")
	}
	if _, done := os.Stat(asked); err != nil || done == nil || probe.OpenSockets() != nil {
		return err
	}
	if err := h.adopt(); err != nil {
		return err
	}
	return bpffs.Make(asked)
}

// Cede gives sockets back what other programs of this host are to set: their pace, or windows.
func (h Host) Cede(w Work) error {
	if _, err := os.Stat(filepath.Join(h.Pins, arrivePin)); !w.Unpaced && (!w.Unheld || err != nil) {
		return nil
	}
	return h.Unpace()
}

// adopt has the sockets paced that are open.
func (h Host) adopt() error {
	if all := h.Namespaces; all != nil {
		few := h.Foreign
		if few == nil {
			few = &netns.Few{}
		}
		h.Namespaces = func(visit func(*netns.Namespace) error) error { return all(few.Of(visit)) }
	}
	return h.eachNamespace(adoptPin)
}

// Unpace gives sockets the pace that their applications have set: whoever has left what is pinned,
// and once nothing paces them any more.
func (h Host) Unpace() error {
	pin := filepath.Join(h.Pins, pacePin)
	if err := bpffs.Remove(filepath.Join(h.Pins, arrivePin), filepath.Join(h.Pins, askedPace), filepath.Join(h.Pins, askedHold)); err != nil {
		return err
	}
	if _, err := os.Stat(pin); err != nil {
		return nil
	}
	if err := bpffs.Detach(pin); err != nil {
		return programNeeds.Fault("end the pace of senders", err)
	}
	if err := h.eachNamespace(freePin); err != nil {
		return err
	}
	return bpffs.Remove(pin)
}

// eachNamespace has a pinned program visit the sockets of every network namespace, if the kernel
// has taken it.
func (h Host) eachNamespace(pin string) error {
	program, err := ebpf.LoadPinnedProgram(filepath.Join(h.loaded(), pin), nil)
	if missing(err) || h.Namespaces == nil {
		return nil
	}
	if err != nil {
		return bpffs.Opening(err)
	}
	defer func() { _ = program.Close() }()
	return h.Namespaces(func(ns *netns.Namespace) error {
		return programNeeds.Fault("visit open connections", sockets.VisitTCP(ns, program))
	})
}

// Follow has the open sockets of a network namespace paced that was in nobody's sight when pacing
// began.
func (h Host) Follow(ns *netns.Namespace) error {
	if _, err := os.Stat(filepath.Join(h.Pins, pacePin)); err != nil || probe.OpenSockets() != nil {
		return nil
	}
	h.Namespaces = func(each func(*netns.Namespace) error) error { return each(ns) }
	return h.adopt()
}
