// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// tcxLink is a BPF link. The kernel stores no name for it: this process identifies its own links by
// id, and pinned ones by file name.
type tcxLink struct {
	link link.Link
	id   link.ID
	pin  string
}

var links = struct {
	sync.Mutex
	of map[link.ID]*Attachment
}{of: map[link.ID]*Attachment{}}

var attachTypes = map[Hook]ebpf.AttachType{Ingress: ebpf.AttachTCXIngress, Egress: ebpf.AttachTCXEgress}

func attachTCX(ns *netns.Namespace, dev string, a *Attachment, program *ebpf.Program, options Options) (*tcxLink, error) {
	namespace, index, err := locate(ns, dev)
	if err != nil {
		return nil, err
	}
	var made *tcxLink
	for attempt := 0; ; attempt++ {
		err = ns.Do(func() (err error) {
			made, err = insert(namespace, index, a, program, options)
			return err
		})
		switch {
		case errors.Is(err, unix.ESTALE) && attempt < 10: // another process has attached meanwhile
		case errors.Is(err, unix.EEXIST) && attempt < 100:
			// The kernel ends an unpinned link some time later; until then its program is still
			// attached.
			time.Sleep(10 * time.Millisecond)
		default:
			return made, err
		}
	}
}

// insert attaches behind those with a lower key and before those with a higher one. It runs in the
// device's namespace.
func insert(namespace uint64, index int, a *Attachment, program *ebpf.Program, options Options) (*tcxLink, error) {
	query, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: attachTypes[a.Hook]})
	if errors.Is(err, unix.EINVAL) { // Linux before 6.6 lacks the type
		err = errors.Join(err, link.ErrNotSupported)
	}
	if err != nil {
		return nil, err
	}
	known, err := known(namespace, index, options.Known)
	if err != nil {
		return nil, err
	}
	var before, after link.ID
	for _, p := range query.Programs {
		id, _ := p.LinkID()
		own := known[id]
		switch {
		case id == 0 || own == nil || own.Hook != a.Hook:
		case own.Order == a.Order && own.Name == a.Name && options.Pins != "":
			return renew(own, program)
		case own.Order == a.Order:
			return nil, taken(a, own)
		case (own.key() < 0) != (a.key() < 0): // foreign programs are between them
		case own.key() < a.key():
			after = id
		case before == 0:
			before = id
		}
	}
	attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Attach: attachTypes[a.Hook], Program: program,
		Anchor: anchor(a, before, after), ExpectedRevision: query.Revision})
	if err != nil {
		return nil, err
	}
	return register(namespace, index, a, attached, options.Pins)
}

func anchor(a *Attachment, before, after link.ID) link.Anchor {
	switch {
	case before != 0:
		return link.BeforeLinkByID(before)
	case after != 0:
		return link.AfterLinkByID(after)
	case a.key() < 0:
		return link.Head()
	}
	return link.Tail()
}

func register(namespace uint64, index int, a *Attachment, attached link.Link, pins string) (*tcxLink, error) {
	info, err := attached.Info()
	l := &tcxLink{link: attached}
	if err == nil {
		l.id = info.ID
		if pins != "" {
			l.pin = pinPath(pins, namespace, index, a)
			if err = makePins(pins); err == nil {
				if _, stale := os.Stat(l.pin); stale == nil { // of a device that had this index before
					err = os.Remove(l.pin)
				}
			}
			if err == nil {
				err = attached.Pin(l.pin)
			}
		}
	}
	if err != nil {
		_ = attached.Close()
		return nil, err
	}
	links.Lock()
	links.of[l.id] = a
	links.Unlock()
	return l, nil
}

// renew takes over a pinned link, with another program.
func renew(own *Attachment, program *ebpf.Program) (*tcxLink, error) {
	pin := own.tcx.pin
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return nil, err
	}
	if err := l.Update(program); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &tcxLink{link: l, id: own.tcx.id, pin: pin}, nil
}

// known returns the links of Weir at a device: those of this process, and pinned ones. The caller
// must not close them.
func known(namespace uint64, index int, pins string) (map[link.ID]*Attachment, error) {
	all := map[link.ID]*Attachment{}
	links.Lock()
	for id, a := range links.of {
		all[id] = a
	}
	links.Unlock()
	found, err := loadPins(namespace, index, pins)
	for _, a := range found {
		all[a.tcx.id] = a
		_ = a.tcx.link.Close()
	}
	return all, err
}

func pinnedLinks(ns *netns.Namespace, dev, pins string) ([]*Attachment, error) {
	namespace, index, err := locate(ns, dev)
	if err != nil {
		return nil, err
	}
	return loadPins(namespace, index, pins)
}

// loadPins opens the pinned links of a device. It omits links that the kernel detached with their
// device.
func loadPins(namespace uint64, index int, pins string) (list []*Attachment, err error) {
	if pins == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(pins, fmt.Sprintf("%d-%d-*", namespace, index)))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		of, at, a, ok := readPin(file)
		if !ok || of != namespace || at != index {
			continue
		}
		l, err := link.LoadPinnedLink(file, nil)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", file, err)
		}
		info, err := l.Info()
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		if tcx := info.TCX(); tcx == nil || tcx.Ifindex != uint32(index) {
			_ = l.Close()
			continue
		}
		a.Program = info.Program
		a.tcx = &tcxLink{link: l, id: info.ID, pin: file}
		list = append(list, a)
	}
	return list, nil
}

func splitPin(name string) []string { return strings.SplitN(name, "-", 5) }

func (l *tcxLink) forget() {
	links.Lock()
	delete(links.of, l.id)
	links.Unlock()
}

// detach removes the pin, the last that holds the link but for this process.
func (l *tcxLink) detach() error {
	l.forget()
	var errs []error
	if l.pin != "" {
		if err := os.Remove(l.pin); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, l.link.Close())...)
}
