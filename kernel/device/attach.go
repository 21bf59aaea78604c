// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/fault"
	"weir/kernel/netns"
)

// Hook is the position of a program on the path of a device's packets.
type Hook string

const (
	Ingress Hook = "ingress" // received packets, before the stack
	Egress  Hook = "egress"  // sent packets, before the qdiscs
)

// Order is the distance of a module's program from the wire. At ingress the lowest order runs
// first, at egress last. Foreign programs are at zero: negative orders are nearer to the wire,
// other orders farther from it. So a positive order runs after foreign programs at ingress and
// before them at egress. A hook has one program per order.
type Order int

// MaxOrder is the order farthest from the wire, -MaxOrder the nearest.
const MaxOrder Order = 999

// Mechanism is the kernel interface by which programs are attached.
type Mechanism string

const (
	Auto   Mechanism = ""       // TCX if the kernel has it
	TCX    Mechanism = "tcx"    // BPF links, Linux 6.6
	Clsact Mechanism = "clsact" // filters of kind bpf, with direct action
)

// Options of [Attach]. The zero value attaches for the life of the process.
type Options struct {
	Pins      string // folder of a BPF file system: the program outlives the process, and [Attached] finds it
	Known     string // folder of other attachments' pins, for the order among them; default Pins
	Mechanism Mechanism
}

// Attachment is a program at a device. Detach removes it; Close removes it too unless it is pinned.
// Not for concurrent use.
type Attachment struct {
	Name      string
	Hook      Hook
	Order     Order
	Mechanism Mechanism
	Program   ebpf.ProgramID // at the time of Attach or Attached

	tcx    *tcxLink
	filter *filter
	pinned bool
}

// Attach attaches a program of type sched_cls to a hook of a device. The name is the module's:
// letters, digits and underscores, unique at the hook. A program with this name and order is
// replaced in place. The program must return TC_ACT_UNSPEC for packets that later programs need.
func Attach(ns *netns.Namespace, dev string, hook Hook, order Order, name string, program *ebpf.Program, options Options) (*Attachment, error) {
	wrong := slices.ContainsFunc([]rune(name), func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if name == "" || wrong || hook != Ingress && hook != Egress || order < -MaxOrder || order > MaxOrder {
		return nil, fmt.Errorf("attach %q to %s of %s with order %d: a name of letters, digits and underscores and an order up to %d are needed",
			name, hook, dev, order, MaxOrder)
	}
	a := &Attachment{Name: name, Hook: hook, Order: order, Mechanism: options.Mechanism, pinned: options.Pins != ""}
	err := a.attach(ns, dev, program, options)
	if err != nil {
		return nil, fmt.Errorf("attach %s to %s of %s: %w", name, hook, dev, err)
	}
	return a, nil
}

func (a *Attachment) attach(ns *netns.Namespace, dev string, program *ebpf.Program, options Options) (err error) {
	info, err := program.Info()
	if err != nil {
		return err
	}
	a.Program, _ = info.ID()
	if options.Pins != "" {
		options.Known = options.Pins
	}
	if a.Mechanism != Clsact {
		a.tcx, err = attachTCX(ns, dev, a, program, options)
		if a.Mechanism == TCX || !errors.Is(err, link.ErrNotSupported) {
			a.Mechanism = TCX
			return err
		}
	}
	a.Mechanism = Clsact
	a.filter, err = attachFilter(ns, dev, a, program)
	return err
}

// key is the position at a hook: lower keys run first; foreign programs are between negative and
// other keys.
func (a *Attachment) key() int {
	if a.Hook == Egress {
		// Order 0 is no nearer to the wire than foreign programs, so it runs before them.
		return -int(a.Order) - 1
	}
	return int(a.Order)
}

// Attached returns the pinned attachments of all processes with this name at both hooks of a
// device. An attachment that is not closed survives the removal of its pin.
func Attached(ns *netns.Namespace, dev, name, pins string) ([]*Attachment, error) {
	found, err := pinnedLinks(ns, dev, pins)
	if err != nil {
		return nil, fmt.Errorf("find %s at %s: %w", name, dev, err)
	}
	filters, err := ownFilters(ns, dev)
	if err != nil {
		return nil, fmt.Errorf("find %s at %s: %w", name, dev, err)
	}
	var list []*Attachment
	for _, a := range append(found, filters...) {
		if a.Name == name && a.pinned {
			list = append(list, a)
		} else {
			a.release()
		}
	}
	return list, nil
}

// Hooks returns the hooks of a device with a pinned attachment of this name, without opening them.
func Hooks(ns *netns.Namespace, dev, name, pins string) (map[Hook]bool, error) {
	found, err := Attached(ns, dev, name, pins)
	if err != nil {
		return nil, err
	}
	hooks := map[Hook]bool{}
	for _, a := range found {
		hooks[a.Hook] = true
		a.release()
	}
	return hooks, nil
}

// Prune removes pins of links with removed devices.
func Prune(pins string) error {
	files, err := filepath.Glob(filepath.Join(pins, "*"))
	if err != nil {
		return fmt.Errorf("look for pins: %w", err)
	}
	for _, file := range files {
		if _, _, _, ok := readPin(file); !ok {
			continue
		}
		l, err := link.LoadPinnedLink(file, nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", file, err)
		}
		info, err := l.Info()
		_ = l.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		if tcx := info.TCX(); tcx != nil && tcx.Ifindex == 0 {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", file, err)
			}
		}
	}
	return nil
}

// Forget removes the pins of all attachments with a name, including those of unreachable devices,
// and the folder if it is empty then.
func Forget(pins, name string) error {
	all, err := filepath.Glob(filepath.Join(pins, "*-"+name))
	if err != nil {
		return fmt.Errorf("look for pins of attachments: %w", err)
	}
	for _, path := range all {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fmt.Errorf("unpin attachment: %w", err), fault.Permission, "run it as root")
		}
	}
	_ = os.Remove(pins) // fails if other modules have pins in it
	return nil
}

// Replace replaces the program atomically: each packet passes one of the two.
func (a *Attachment) Replace(program *ebpf.Program) error {
	err := a.replace(program)
	if err != nil {
		return fmt.Errorf("replace program %s: %w", a.Name, err)
	}
	info, err := program.Info()
	if err == nil {
		a.Program, _ = info.ID()
	}
	return err
}

func (a *Attachment) replace(program *ebpf.Program) error {
	if a.tcx != nil {
		return a.tcx.link.Update(program)
	}
	return a.filter.put(a, program)
}

// Detach detaches the program, pinned or not, and removes clsact if Weir created it and it is
// empty. A missing device is no error.
func (a *Attachment) Detach() error {
	var err error
	if a.tcx != nil {
		err = a.tcx.detach()
	} else {
		err = a.filter.detach(a)
	}
	if err != nil {
		return fmt.Errorf("detach program %s: %w", a.Name, err)
	}
	return nil
}

// Close detaches the program unless it is pinned.
func (a *Attachment) Close() error {
	if !a.pinned {
		return a.Detach()
	}
	a.release()
	return nil
}

func (a *Attachment) release() {
	if a.tcx != nil {
		a.tcx.forget()
		_ = a.tcx.link.Close()
	} else {
		a.filter.conn.Close()
	}
}

// ErrTaken is returned if another program has the order.
var ErrTaken = errors.New("the order is taken")

func taken(a, by *Attachment) error {
	return fault.New(fault.Usage, "give each module its own order", "%s has order %d already: %w", by.Name, a.Order, ErrTaken)
}

// pinPath is the file of a pinned link; names in a BPF file system have no dots.
func pinPath(folder string, namespace uint64, index int, a *Attachment) string {
	return filepath.Join(folder, fmt.Sprintf("%d-%d-%s-%d-%s", namespace, index, a.Hook, int(a.Order+MaxOrder), a.Name))
}

func readPin(file string) (namespace uint64, index int, a *Attachment, ok bool) {
	a = &Attachment{Mechanism: TCX, pinned: true}
	parts := splitPin(filepath.Base(file))
	if len(parts) != 5 {
		return 0, 0, nil, false
	}
	var order int
	_, err := fmt.Sscan(parts[0]+" "+parts[1]+" "+parts[3], &namespace, &index, &order)
	a.Hook, a.Order, a.Name = Hook(parts[2]), Order(order)-MaxOrder, parts[4]
	return namespace, index, a, err == nil
}

func makePins(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.Wrap(err, fault.Testbed, "mount -t bpf -o mode=700 bpf /sys/fs/bpf")
	}
	return nil
}
