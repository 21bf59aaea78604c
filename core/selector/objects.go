// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/core/match"
	"weir/core/selector/runtimes"
	"weir/internal/wait"
	"weir/kernel/cgroup"
)

// Object is one of several objects of a selector.
type Object struct {
	match.Key        // zero for a future cgroup
	Path      string `json:"path,omitempty"` // of a cgroup, below the root of the hierarchy
}

// setMore stores further objects as text, so that bindings stay comparable.
func (b *Binding) setMore(more []Object) {
	if b.More = ""; len(more) > 0 {
		text, _ := json.Marshal(more) // of numbers and texts
		b.More = string(text)
	}
}

// objects lists all objects.
func (b Binding) objects() []Object {
	var more []Object
	_ = json.Unmarshal([]byte(b.More), &more) // "" for none
	first := Object{Path: b.Path}
	if b.Missing == "" {
		first.Key = b.Key
	}
	return append([]Object{first}, more...)
}

// Keys lists the keys of the existing objects.
func (b Binding) Keys() (all []match.Key) {
	for _, o := range b.objects() {
		if o.Kind != "" {
			all = append(all, o.Key)
		}
	}
	return all
}

// Cgroups lists the existing and future cgroups.
func (b Binding) Cgroups() []Object {
	if b.Path == "" {
		return nil
	}
	all := b.objects()
	all[0].Key = b.Key
	return all
}

// bindObjects returns the binding of several cgroups. Without an existing one it waits for reason.
func bindObjects(all []Object, reason string) (b Binding) {
	slices.SortFunc(all, func(a, b Object) int {
		if exists := b.Number != 0; exists != (a.Number != 0) { // existing ones first
			if exists {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Path, b.Path)
	})
	if len(all) == 0 {
		return Binding{Missing: reason}
	}
	if b.Key, b.Path = all[0].Key, all[0].Path; b.Number == 0 {
		b.Missing = reason
	}
	b.setMore(all[1:])
	return b
}

// Existing returns the binding of the cgroups that exist now at the same paths, or one that waits
// for reason. root is the folder of the hierarchy.
func (b Binding) Existing(root, reason string) Binding {
	var all []Object
	for _, o := range b.Cgroups() {
		if o.Key = (match.Key{}); o.Path != "" {
			if id, err := (cgroup.Cgroup{Path: filepath.Join(root, o.Path)}).ID(); err == nil {
				o.Key = match.OfCgroup(id)
			}
		}
		all = append(all, o)
	}
	return bindObjects(all, reason)
}

// followRetry is the interval of attempts to reach a runtime.
const followRetry = 2 * time.Second

// followRuntimes calls changed after events of all runtimes until ctx ends.
func followRuntimes(ctx context.Context, all []runtimes.Runtime, changed func()) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, r := range all {
		group.Go(func() {
			for ctx.Err() == nil {
				_ = r.Follow(ctx, changed) // absent or restarting
				_ = wait.For(ctx, followRetry)
			}
		})
	}
}
