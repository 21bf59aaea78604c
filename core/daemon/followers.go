// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"sync"

	"weir/core/selector"
)

// followers follows the events of selectors that no folder shows, such as those of container
// runtimes, while the active policy has selectors of the kind.
type followers struct {
	group   sync.WaitGroup
	cancel  map[string]context.CancelFunc // by kind
	changes chan struct{}                 // capacity 1: further events need no entry
}

// resync starts and ends followers for the kinds of the active selectors.
func (f *followers) resync(ctx context.Context, lookup func() *selector.Host, active map[string]bool) {
	for _, k := range selector.Kinds() {
		end, follows := f.cancel[k.Key]
		switch {
		case k.Follow == nil || follows == active[k.Key]:
		case follows:
			end()
			delete(f.cancel, k.Key)
		default:
			f.begin(ctx, lookup(), k)
		}
	}
}

func (f *followers) begin(ctx context.Context, h *selector.Host, k selector.Kind) {
	if f.cancel == nil {
		f.cancel = map[string]context.CancelFunc{}
	}
	ctx, f.cancel[k.Key] = context.WithCancel(ctx)
	changes := f.changed()
	f.group.Go(func() {
		k.Follow(ctx, h, func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
	})
}

// changed reports events.
func (f *followers) changed() chan struct{} {
	if f.changes == nil {
		f.changes = make(chan struct{}, 1)
	}
	return f.changes
}

// stop ends all followers.
func (f *followers) stop() {
	for _, end := range f.cancel {
		end()
	}
	f.group.Wait()
}
