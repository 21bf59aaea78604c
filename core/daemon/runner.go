// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"reflect"
	"time"

	"weir/core/module"
)

// runners runs the background work of active modules (module.Runner).
type runners struct {
	service *Service
	running map[string]*running // by module
	seen    time.Time           // modification time of the state at the last read
}

// running is the work of one module.
type running struct {
	applied time.Time
	state   module.State
	cancel  context.CancelFunc
	ended   chan struct{}
}

func (s *Service) runners() *runners { return &runners{service: s, running: map[string]*running{}} }

// resync starts the work of modules that became active, and ends or restarts it if their state
// ended or changed.
func (k *runners) resync(ctx context.Context) {
	if !k.due() {
		return
	}
	applied, states, err := k.service.Engine.Active()
	if err != nil {
		k.service.say("start the work of modules", err)
		return
	}
	for _, r := range k.service.Engine.Modules {
		runner, runs := k.service.Engine.Plane(r).(module.Runner)
		if !runs {
			continue
		}
		part := states[r.Name()]
		if now := k.running[r.Name()]; now != nil {
			if same := now.applied.Equal(applied) && reflect.DeepEqual(now.state, part); same && !now.over() {
				continue
			}
			now.end()
			delete(k.running, r.Name())
		}
		if !part.Empty() {
			k.begin(ctx, r.Name(), runner, applied, part)
		}
	}
}

// due reports whether the active state has changed or some work has ended.
func (k *runners) due() bool {
	at := k.service.Engine.ActiveSince()
	due := !at.Equal(k.seen)
	for _, now := range k.running {
		due = due || now.over()
	}
	k.seen = at
	return due
}

// begin starts the work of a module.
func (k *runners) begin(ctx context.Context, name string, runner module.Runner, applied time.Time, part module.State) {
	ctx, cancel := context.WithCancel(ctx)
	now := &running{applied: applied, state: part, cancel: cancel, ended: make(chan struct{})}
	k.running[name] = now
	go func() {
		defer close(now.ended)
		if err := runner.Run(ctx, part); err != nil && ctx.Err() == nil {
			k.service.Log.Error("the work of a module has ended; it restarts", "module", name, "reason", err)
		}
	}()
}

// over reports whether the work has ended by itself.
func (k *running) over() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}

func (k *running) end() {
	k.cancel()
	<-k.ended
}

// stop ends all work.
func (k *runners) stop() {
	for _, now := range k.running {
		now.end()
	}
}
