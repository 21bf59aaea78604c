// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"

	"weir/kernel/bpffs"
	"weir/kernel/probe"
)

// inForceFolder contains the pins of the active policy, beside the folders of weir cc install. No
// control can have this name.
//
//	link, scopes, counts, settings, ...   the program that assigns controls to scopes, and its maps
//	own-NAME                              a control installed by the policy
//	shared-NAME                           a control pinned by weir cc install and used by the policy
const inForceFolder = "in-force"

const (
	ownPin    = "own-"
	sharedPin = "shared-"
)

// inForce reports whether the active policy holds a control of Weir.
func inForce(dir, name string) bool {
	folder := filepath.Join(dir, inForceFolder)
	return exists(filepath.Join(folder, ownPin+name)) || exists(filepath.Join(folder, sharedPin+name))
}

// hold keeps a control of Weir registered while the policy is active. It is repeatable. note is for
// the user.
func hold(dir, name string, kind algorithm) (note string, err error) {
	if inForce(dir, name) {
		return "", nil
	}
	if by := filepath.Join(dir, name, "control"); exists(by) {
		return "", share(by, filepath.Join(dir, inForceFolder, sharedPin+name))
	}
	// The control of a killed command is about to end.
	if waitGone(name, time.Second) != nil {
		return fmt.Sprintf("%s belongs to another process and goes with it; connections from then on keep their congestion control until the policy is applied again", name), nil
	}
	installed, err := register(kind, Options{Name: name})
	if err != nil {
		return "", err
	}
	defer func() { _ = installed.Close() }()
	if err := installed.link.Pin(filepath.Join(dir, inForceFolder, ownPin+name)); err != nil {
		return "", bpffs.Fault(fmt.Errorf("pin congestion control: %w", err))
	}
	return "", nil
}

// share pins an attachment a second time.
func share(from, to string) error {
	pinned, err := link.LoadPinnedLink(from, nil)
	if err != nil {
		return bpffs.Fault(fmt.Errorf("open congestion control: %w", err))
	}
	defer func() { _ = pinned.Close() }()
	info, err := pinned.Info()
	if err != nil {
		return fmt.Errorf("read congestion control: %w", err)
	}
	again, err := link.NewFromID(info.ID) // a link without knowledge of its pin
	if err != nil {
		return programNeeds.Fault("open congestion control", err)
	}
	defer func() { _ = again.Close() }()
	if err := again.Pin(to); err != nil {
		return bpffs.Fault(fmt.Errorf("pin congestion control: %w", err))
	}
	return nil
}

// letGo unpins the controls that are no longer needed.
func letGo(dir string, needed map[string]algorithm) error {
	folder := filepath.Join(dir, inForceFolder)
	for _, prefix := range []string{ownPin, sharedPin} {
		paths, err := filepath.Glob(filepath.Join(folder, prefix+"*"))
		if err != nil {
			return fmt.Errorf("release congestion controls: %w", err)
		}
		for _, path := range paths {
			name := filepath.Base(path)[len(prefix):]
			if _, stays := needed[name]; stays {
				continue
			}
			if err := os.Remove(path); err != nil {
				return bpffs.Fault(fmt.Errorf("release congestion control %s: %w", name, err))
			}
			if prefix == sharedPin {
				continue
			}
			_ = waitGone(name, unregisterTime) // another process may keep it
		}
	}
	return nil
}

// unregisterTime limits the wait for the kernel, which frees unpinned controls in the background.
const unregisterTime = 5 * time.Second

// waitGone waits until the kernel does not list a control.
func waitGone(name string, limit time.Duration) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; <-ticker.C {
		names, err := probe.CongestionControls()
		if err != nil || !slices.Contains(names, name) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove congestion control %s: the kernel still lists it", name)
		}
	}
}
