// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/storage"
)

// Pin keeps the maps and attachments after the end of the process, under dir, a folder of a bpf
// file system, which it creates. A failed Pin leaves nothing.
func (p *DataPlane) Pin(dir string) error {
	if err := CanPin(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return filePermission(fmt.Errorf("pin limit: %w", err))
	}
	err := p.pinAll(dir)
	if err != nil {
		_ = Unpin(dir)
	}
	return err
}

// ForFiles is the advice after a permission error at a file or pin. Pins belong to the user who
// created them, usually root, and capabilities for BPF do not open them.
const ForFiles = "run it as root, or with CAP_DAC_OVERRIDE and CAP_FOWNER beside CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: files of another user take them"

// filePermission is permission for errors of pins.
func filePermission(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, ForFiles)
	}
	return programNeeds.Fault("", storage.Fault(err))
}

// CanPin returns an error if a folder, existing or not, is outside of a bpf file system. Without a
// mount, /sys/fs/bpf is a folder of sysfs, where not even root can create folders.
func CanPin(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		var found unix.Statfs_t
		err := unix.Statfs(dir, &found)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err != nil {
			return filePermission(fmt.Errorf("pin limit: stat %s: %w", dir, err))
		}
		if found.Type != unix.BPF_FS_MAGIC {
			return fault.New(fault.Testbed, "mount one: mount -t bpf -o mode=700 bpf /sys/fs/bpf", "pin limit: no bpf file system is mounted at %s or above", dir)
		}
		return bpffs.Writable(dir, found)
	}
}

func (p *DataPlane) pinAll(dir string) error {
	for name, m := range p.maps() {
		if err := (*m).Pin(filepath.Join(dir, mapPin(name))); err != nil {
			return filePermission(fmt.Errorf("pin map %s: %w", name, err))
		}
	}
	if err := p.pinPrograms(dir); err != nil {
		return err
	}
	for i, attached := range p.links {
		if err := pinLink(attached, dir, i); err != nil {
			return err
		}
	}
	if p.inward != nil {
		if err := pinLink(p.inward, dir, ingressPin); err != nil {
			return err
		}
	}
	p.dir = dir
	return nil
}

// ingressPin is the number of the pinned ingress attachment. It is last, and attached
// independently.
const ingressPin = 2

func linkPin(number int) string { return fmt.Sprintf("link-%d", number) }

func pinLink(attached link.Link, dir string, number int) error {
	if err := attached.Pin(filepath.Join(dir, linkPin(number))); err != nil {
		return filePermission(fmt.Errorf("pin attachment %d: %w", number, err))
	}
	return nil
}

// maps returns the maps with pins by name. The socket storage lives with the programs and the
// sockets.
func (p *DataPlane) maps() map[string]**ebpf.Map {
	all := match.Fields(&p.objects.limitMaps)
	delete(all, limitMapLimitSockets)
	delete(all, limitMapLimitOwners)
	return all
}

// mapPin returns the pin of a map: its name without the prefix.
func mapPin(name string) string {
	_, short, _ := strings.Cut(name, "_")
	return short
}

// ErrOtherVersion is returned for pins of a Weir version with another map layout.
var ErrOtherVersion = errors.New("the active limits were applied by another version of Weir")

// LoadPinned opens the pins under dir. Close then keeps the limits active. The error is
// fs.ErrNotExist if pins are missing, and ErrOtherVersion if this version cannot read them.
//
// New ingress limits require AttachedTo.
func LoadPinned(dir string) (*DataPlane, error) {
	p := &DataPlane{dir: dir}
	if err := p.openMaps(dir); err != nil {
		_ = p.Close()
		return nil, err
	}
	p.openPrograms(dir)
	hooks, err := pinnedHooks(dir)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	p.ingress = hooks[ebpf.AttachCGroupInetIngress]
	// While a larger data plane replaces this one, pins of both exist.
	p.scopes = int(min(p.objects.LimitConfigs.MaxEntries()/2, p.objects.LimitStates.MaxEntries()/2, p.objects.LimitShares.MaxEntries()/2,
		p.objects.LimitCounts.MaxEntries()/2, p.objects.LimitTree.MaxEntries(), p.objects.LimitRtts.MaxEntries()))
	if err := p.objects.LimitCurrent.Lookup(uint32(0), &p.settings); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return p, nil
}

// AttachedTo sets the cgroup of the pinned programs.
func (p *DataPlane) AttachedTo(path string) { p.path = path }

// layouts returns the layouts of the maps.
var layouts = bpffs.Layouts(loadLimit)

func (p *DataPlane) openMaps(dir string) error {
	layouts, err := layouts()
	if err != nil {
		return fmt.Errorf("read limit programs: %w", err)
	}
	other := fault.Wrap(fmt.Errorf("open %s: %w", dir, ErrOtherVersion), fault.Failed, "release them with 'weir release', then apply the policy again")
	for name, m := range p.maps() {
		path := filepath.Join(dir, mapPin(name))
		opened, err := ebpf.LoadPinnedMap(path, nil)
		if errors.Is(err, fs.ErrNotExist) && AttachmentsPinned(dir) {
			// Attachments are pinned last: with one, all maps of its version exist, unless it
			// appeared after the first attempt.
			if opened, err = ebpf.LoadPinnedMap(path, nil); errors.Is(err, fs.ErrNotExist) && AttachmentsPinned(dir) {
				return other
			}
		}
		if err != nil {
			return filePermission(fmt.Errorf("open pinned map %s: %w", name, err))
		}
		*m = opened
		if !layouts[name].Of(opened) {
			return other
		}
	}
	return nil
}

// AttachmentsPinned reports whether pinned attachments exist under dir.
func AttachmentsPinned(dir string) bool {
	pins, _ := filepath.Glob(filepath.Join(dir, "link-*")) // the pattern is well-formed
	return len(pins) > 0
}

// LoadForRelease opens the programs that Free needs from pins of any Weir version under dir. The
// error is fs.ErrNotExist without pins.
func LoadForRelease(dir string) (*DataPlane, error) {
	pins, err := os.ReadDir(dir)
	if err == nil && len(pins) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, filePermission(fmt.Errorf("open pinned limits: %w", err))
	}
	p := &DataPlane{}
	p.openPrograms(dir)
	return p, nil
}

// Attached reports whether all attachments that the pinned limits need exist. Some are missing
// after the removal of their cgroup or a crash between two pins; none counts while one data plane
// replaces another.
func Attached(dir string) (bool, error) {
	if bpffs.Replacing(dir) {
		return false, nil
	}
	hooks, err := pinnedHooks(dir)
	if err != nil || !hooks[ebpf.AttachCGroupInetEgress] || !hooks[ebpf.AttachCGroupSockOps] {
		return false, err
	}
	return hooks[ebpf.AttachCGroupInetIngress] || !pinnedIngress(dir), nil
}

// pinnedHooks returns the hooks with a pinned attachment under dir. Pins removed by another process
// meanwhile are skipped.
func pinnedHooks(dir string) (map[ebpf.AttachType]bool, error) {
	pins, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, filePermission(fmt.Errorf("open attachments: %w", err))
	}
	hooks := map[ebpf.AttachType]bool{}
	for _, pin := range pins {
		if !strings.HasPrefix(pin.Name(), "link-") {
			continue
		}
		hook, attached, err := pinnedHook(filepath.Join(dir, pin.Name()))
		if err != nil {
			return nil, err
		}
		if attached {
			hooks[hook] = true
		}
	}
	return hooks, nil
}

// pinnedHook returns the hook of a pinned attachment, and whether it is attached: a link ends with
// its cgroup or a manual detach.
func pinnedHook(pin string) (hook ebpf.AttachType, attached bool, err error) {
	opened, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, filePermission(fmt.Errorf("open attachment: %w", err))
	}
	info, err := opened.Info()
	_ = opened.Close()
	if err != nil {
		return 0, false, fmt.Errorf("read attachment: %w", err)
	}
	group := info.Cgroup()
	if group == nil || group.CgroupId == 0 {
		return 0, false, nil
	}
	return ebpf.AttachType(group.AttachType), true, nil
}

// pinnedIngress reports whether a pinned limit is for ingress; false for pins of another version,
// for which LoadPinned returns an error.
func pinnedIngress(dir string) bool {
	plane, err := LoadPinned(dir)
	if err != nil {
		return false
	}
	defer func() { _ = plane.Close() }()
	limited, err := plane.limitsIngress()
	return err != nil || limited
}

// Detach detaches the attachments under dir, and with them all effects on packets; other pins stay
// for Free.
//
// An explicit detach takes effect at once. Dropping the last reference does not, and a freed socket
// could be paced again, permanently.
func Detach(dir string) error {
	pins, err := filepath.Glob(filepath.Join(dir, "link-*"))
	if err != nil {
		return fmt.Errorf("unpin limit: %w", err)
	}
	var all []error
	for _, pin := range pins {
		all = append(all, filePermission(bpffs.Detach(pin)))
	}
	return errors.Join(append(all, unpin(dir, "link-*"))...)
}

// Unpin removes all pins under dir, attachments first, so that no packet meets a partial data
// plane. A missing folder is no error.
func Unpin(dir string) error {
	if err := errors.Join(Detach(dir), unpin(dir, "*")); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return filePermission(fmt.Errorf("unpin limit: %w", err))
	}
	return nil
}

func unpin(dir, pattern string) error {
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return fmt.Errorf("unpin limit: %w", err)
	}
	var all []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, fmt.Errorf("unpin limit: %w", err))
		}
	}
	return filePermission(errors.Join(all...))
}

// NoStrays returns an error if the programs are attached to the cgroup at root or below without
// pins.
func NoStrays(root string) error {
	return bpffs.NoStrays(root, "limits", []ebpf.AttachType{ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps},
		limitProgLimitEgress, limitProgLimitIngress, limitProgLimitSockops)
}
