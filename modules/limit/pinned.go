// SPDX-License-Identifier: Apache-2.0

package limit

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

// Pin keeps the maps and attachments alive under dir, a folder of a bpf file system, after this
// process has ended. It makes the folder. A pin that fails half-way leaves nothing.
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

// ForFiles is the advice to one who may not open or make a file or a pin that limits outlive their
// process by. They are the first user's, usually root's, which the rights to BPF do not open; a
// time of change is set by the owner alone.
const ForFiles = "run it as root, or with CAP_DAC_OVERRIDE and CAP_FOWNER beside CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: files of another user take them"

// filePermission is permission for what is done to pins.
func filePermission(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, ForFiles)
	}
	return programNeeds.Fault("", storage.Fault(err))
}

// CanPin refuses a folder, which need not exist, that is not in a bpf file system. Where none is
// mounted on /sys/fs/bpf, that is a folder of sysfs, in which not even root may make another.
func CanPin(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		var found unix.Statfs_t
		err := unix.Statfs(dir, &found)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err != nil {
			return filePermission(fmt.Errorf("pin limit: look at %s: %w", dir, err))
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

// ingressPin is the number of the pinned attachment for ingress, which comes last, and comes and
// goes by itself.
const ingressPin = 2

func linkPin(number int) string { return fmt.Sprintf("link-%d", number) }

func pinLink(attached link.Link, dir string, number int) error {
	if err := attached.Pin(filepath.Join(dir, linkPin(number))); err != nil {
		return filePermission(fmt.Errorf("pin attachment %d: %w", number, err))
	}
	return nil
}

// maps are the maps that outlive the process, by name. The sockets' storage lives with the programs
// and the sockets.
func (p *DataPlane) maps() map[string]**ebpf.Map {
	all := match.Fields(&p.objects.limitMaps)
	delete(all, limitMapLimitSockets)
	return all
}

// mapPin is the pin of a map: its name without whose it is.
func mapPin(name string) string {
	_, short, _ := strings.Cut(name, "_")
	return short
}

// ErrOtherVersion says that the limits in force were pinned by a version of Weir whose maps are
// laid out differently.
var ErrOtherVersion = errors.New("the limits in force are those of another version of Weir")

// LoadPinned opens what Pin has left under dir. Close then leaves the limits in force. The error is
// fs.ErrNotExist where nothing is pinned, or only a part, and ErrOtherVersion where this version
// cannot read it.
//
// Only with AttachedTo can it be given limits of a direction that no limit was set for before.
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
	// While a larger data plane takes the place of this one, some pins are of either.
	p.scopes = int(min(p.objects.LimitConfigs.MaxEntries()/2, p.objects.LimitStates.MaxEntries()/2, p.objects.LimitShares.MaxEntries()/2,
		p.objects.LimitCounts.MaxEntries()/2, p.objects.LimitTree.MaxEntries(), p.objects.LimitRtts.MaxEntries()))
	if err := p.objects.LimitCurrent.Lookup(uint32(0), &p.settings); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return p, nil
}

// AttachedTo says to which cgroup the pinned programs are attached.
func (p *DataPlane) AttachedTo(path string) { p.path = path }

// layouts are those of the maps.
var layouts = bpffs.Layouts(loadLimit)

func (p *DataPlane) openMaps(dir string) error {
	layouts, err := layouts()
	if err != nil {
		return fmt.Errorf("read limit programs: %w", err)
	}
	other := fault.Wrap(fmt.Errorf("open %s: %w", dir, ErrOtherVersion), fault.Failed, "end them with 'weir release', then apply the policy again")
	for name, m := range p.maps() {
		path := filepath.Join(dir, mapPin(name))
		opened, err := ebpf.LoadPinnedMap(path, nil)
		if errors.Is(err, fs.ErrNotExist) && attachmentsPinned(dir) {
			// Attachments are pinned last: where they are, every map of that version is, unless
			// they came after the first look.
			if opened, err = ebpf.LoadPinnedMap(path, nil); errors.Is(err, fs.ErrNotExist) && attachmentsPinned(dir) {
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

func attachmentsPinned(dir string) bool {
	pins, _ := filepath.Glob(filepath.Join(dir, "link-*")) // the pattern is well-formed
	return len(pins) > 0
}

// LoadForRelease opens as much of what Pin has left under dir as Free needs, whichever version of
// Weir has left it. The error is fs.ErrNotExist where nothing is pinned.
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

// Attached says whether all attachments that the limits pinned under dir need are in place: a
// cgroup that was removed takes them with it, and a process killed between two pins, or two
// removals of pins, leaves some of them; and while one data plane takes another's place neither is.
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

// pinnedHooks are those at which attachments pinned under dir are in place. Another process may
// remove pins meanwhile: what has gone since the folder was read is not there.
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

// pinnedHook is the hook of one pinned attachment, and whether it is in place: there, and not ended
// by hand or with its cgroup.
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

// pinnedIngress says whether a limit pinned under dir is one of ingress; not where another version
// has pinned them, which LoadPinned tells.
func pinnedIngress(dir string) bool {
	plane, err := LoadPinned(dir)
	if err != nil {
		return false
	}
	defer func() { _ = plane.Close() }()
	limited, err := plane.limitsIngress()
	return err != nil || limited
}

// Detach ends the attachments that are pinned under dir, and with them all effect on packets; the
// rest stays for Free.
//
// They are detached one by one, not by their last reference alone, which the kernel would see to in
// its own time: a socket that is set free meanwhile would be paced again, for good.
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

// Unpin ends the limits that are pinned under dir: attachments first, so that no packet meets half
// a data plane. A missing folder is no error.
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
