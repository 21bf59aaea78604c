// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/testutil"
)

// busyModule is a Runner: it has background work while it is active.
type busyModule struct{ begun, ended *atomic.Int32 }

type busyPlane struct{ busyModule }

type busyTreatment struct{ N int }

func (busyTreatment) Summary() string                        { return "busy" }
func (busyModule) Name() string                              { return "busy" }
func (busyModule) Grammar() policy.Grammar                   { return policy.Grammar{Module: "busy"} }
func (busyModule) Decode([]byte) (policy.Treatment, error)   { return busyTreatment{}, nil }
func (busyModule) Mechanism(module.Bound) string             { return "" }
func (busyModule) Columns() module.Columns                   { return module.Columns{} }
func (r busyModule) Plane(module.Host) module.Plane          { return busyPlane{r} }
func (busyPlane) Ready(module.State) error                   { return nil }
func (busyPlane) InPlace(module.State) (bool, error)         { return true, nil }
func (busyPlane) Apply(_, _ module.State) ([]string, error)  { return nil, nil }
func (busyPlane) Report(module.State) (module.Report, error) { return module.Report{}, nil }
func (busyPlane) Release() (bool, error)                     { return false, nil }
func (p busyPlane) WithoutDaemon() string                    { return "busy: nobody is" }

func (p busyPlane) Run(ctx context.Context, s module.State) error {
	p.begun.Add(1)
	defer p.ended.Add(1)
	if p.begun.Load() == 1 {
		return errors.New("the first attempt fails")
	}
	<-ctx.Done()
	return nil
}

// A runner starts when its module becomes active, restarts after an error, and ends with the
// policy.
func TestModulesRunWhileActive(t *testing.T) {
	begun, ended := &atomic.Int32{}, &atomic.Int32{}
	e := &engine.Engine{Modules: []module.Module{busyModule{begun, ended}}, StateDir: t.TempDir()}
	s := &Service{Engine: e, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	work := s.runners()
	force := func(items ...policy.Item) {
		t.Helper()
		if _, err := e.Apply(&policy.Policy{Host: items}); err != nil {
			t.Fatal(err)
		}
	}
	comes := func(want int32, what string, n *atomic.Int32) {
		t.Helper()
		testutil.Eventually(t, patience, what, func() bool {
			work.resync(t.Context())
			return n.Load() == want
		})
	}
	force(policy.Item{Module: "busy", Name: "it", Treatment: busyTreatment{1}})
	if words, err := e.WithoutDaemon(); err != nil || len(words) != 1 {
		t.Errorf("without a controller: %v, %v", words, err)
	}
	comes(2, "a second attempt", begun)
	comes(1, "the end of the first", ended)
	force()
	later := time.Now().Add(time.Minute) // both states may have been written within a tick of the clock
	if err := os.Chtimes(filepath.Join(e.StateDir, "state.json"), later, later); err != nil {
		t.Fatal(err)
	}
	comes(2, "the end with the policy", ended)
	if words, err := e.WithoutDaemon(); err != nil || len(words) != 0 {
		t.Errorf("with nothing active: %v, %v", words, err)
	}
	if begun.Load() != 2 {
		t.Errorf("it was begun %d times", begun.Load())
	}
	work.stop()
}
