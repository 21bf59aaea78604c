// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"weir/core/module"
)

// keepers runs what rooms have to do for as long as they are in force.
type keepers struct {
	service *Service
	running map[string]*kept // by room
	seen    time.Time        // of the state when it was read last
}

// kept is one room's work.
type kept struct {
	applied time.Time
	state   module.State
	cancel  context.CancelFunc
	ended   chan struct{}
}

func (s *Service) keepers() *keepers { return &keepers{service: s, running: map[string]*kept{}} }

// Unkept are words of rooms in force that have work to do which nobody does: no controller runs.
func (e *Engine) WithoutDaemon() (words []string, err error) {
	controller, err := e.Controller()
	if err != nil || controller != nil && controller.Running {
		return nil, err
	}
	have, err := e.store().read(current)
	if err != nil {
		return nil, err
	}
	for _, r := range e.Modules {
		if keeper, works := e.plane(r).(module.Runner); works && !have.of(r).Empty() {
			words = append(words, keeper.WithoutDaemon())
		}
	}
	return words, nil
}

// see begins the work of rooms that came into force, and ends that of those that are not any more,
// or are in another state.
func (k *keepers) see(ctx context.Context) {
	if !k.due() {
		return
	}
	have, err := k.service.Engine.store().read(current)
	if err != nil {
		k.service.say("see to rooms that have work to do", err)
		return
	}
	for _, r := range k.service.Engine.Modules {
		keeper, works := k.service.Engine.plane(r).(module.Runner)
		if !works {
			continue
		}
		part := have.of(r)
		if now := k.running[r.Name()]; now != nil {
			if same := now.applied.Equal(have.Applied) && reflect.DeepEqual(now.state, part); same && !now.over() {
				continue
			}
			now.end()
			delete(k.running, r.Name())
		}
		if !part.Empty() {
			k.begin(ctx, r.Name(), keeper, have.Applied, part)
		}
	}
}

// due says whether the state in force is another than it was, or some work has ended.
func (k *keepers) due() bool {
	var at time.Time
	if info, err := os.Stat(filepath.Join(k.service.Engine.StateDir, current)); err == nil {
		at = info.ModTime()
	}
	due := !at.Equal(k.seen)
	for _, now := range k.running {
		due = due || now.over()
	}
	k.seen = at
	return due
}

// begin starts one room's work.
func (k *keepers) begin(ctx context.Context, name string, keeper module.Runner, applied time.Time, part module.State) {
	ctx, cancel := context.WithCancel(ctx)
	now := &kept{applied: applied, state: part, cancel: cancel, ended: make(chan struct{})}
	k.running[name] = now
	go func() {
		defer close(now.ended)
		if err := keeper.Run(ctx, part); err != nil && ctx.Err() == nil {
			k.service.Log.Error("a room's work has ended; it begins again", "module", name, "reason", err)
		}
	}()
}

// over says whether the work has ended by itself.
func (k *kept) over() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}

func (k *kept) end() {
	k.cancel()
	<-k.ended
}

// stop ends all work.
func (k *keepers) stop() {
	for _, now := range k.running {
		now.end()
	}
}
