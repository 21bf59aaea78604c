// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"weir/core/match"
	"weir/core/selector/runtimes"
	"weir/internal/wait"
)

// Object is one of several cgroups of a selector.
type Object struct {
	Number uint64 `json:"number,omitempty"` // id; 0 for a future cgroup
	Path   string `json:"path"`             // below the root of the hierarchy
}

// setMore stores further objects as text, so that bindings stay comparable.
func (b *Binding) setMore(more []Object) {
	if b.More = ""; len(more) > 0 {
		text, _ := json.Marshal(more) // of numbers and texts
		b.More = string(text)
	}
}

func (b Binding) more() (all []Object) {
	_ = json.Unmarshal([]byte(b.More), &all) // "" for none
	return all
}

// Keys lists the keys of the existing objects.
func (b Binding) Keys() (all []match.Key) {
	if b.Kind != "" && b.Missing == "" {
		all = append(all, b.Key)
	}
	for _, o := range b.more() {
		if o.Number != 0 {
			all = append(all, match.OfCgroup(o.Number))
		}
	}
	return append(all, subordinateKeys(b.Subordinates)...)
}

// Cgroups lists the existing and future cgroups.
func (b Binding) Cgroups() []Object {
	if b.Path == "" {
		return nil
	}
	return append([]Object{{b.Number, b.Path}}, b.more()...)
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
