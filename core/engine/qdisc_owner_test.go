// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/module"
	"weir/core/policy"
)

// takerRoom replaces the tree of the device that its item of the host names.
type ownerModule struct {
	module.Module
	name  string
	plane func(takerPlane) module.Plane
	log   *[]string
	fails *bool // its next Apply
}

func (r ownerModule) Name() string { return r.name }

func (r ownerModule) Plane(module.Host) module.Plane {
	return r.plane(takerPlane{r.name, r.log, r.fails})
}

type takerPlane struct {
	name  string
	log   *[]string
	fails *bool
}

func (p takerPlane) say(format string, args ...any) {
	*p.log = append(*p.log, p.name+" "+fmt.Sprintf(format, args...))
}

func (takerPlane) Ready(module.State) error                   { return nil }
func (takerPlane) InPlace(module.State) (bool, error)         { return true, nil }
func (takerPlane) Report(module.State) (module.Report, error) { return module.Report{}, nil }

func (p takerPlane) Apply(_, want module.State) ([]string, error) {
	p.say("applies, shared %v", want.Shared["eth0"])
	if *p.fails {
		*p.fails = false
		return nil, errors.New("it fails")
	}
	return nil, nil
}

func (p takerPlane) Release() (bool, error) {
	p.say("releases")
	return true, nil
}

func (takerPlane) QdiscDevices(s module.State) []string {
	if s.Empty() {
		return nil
	}
	return []string{"eth0"}
}

func (p takerPlane) Yield(want module.State) error {
	p.say("yields, shared %v", want.Shared["eth0"])
	return nil
}

func (takerPlane) CanHost() error                     { return module.ErrNotShared }
func (takerPlane) CanNest(module.State, string) error { return module.ErrNotShared }

type nestedPlane struct {
	takerPlane
	why error
}

func (p nestedPlane) CanNest(module.State, string) error { return p.why }

type sharerPlane struct {
	takerPlane
	why error
}

func (p sharerPlane) CanHost() error { return p.why }

// Two rooms that take a device share it where the one's packets can wait in the other's tree.
func TestWhoHasADevice(t *testing.T) {
	plain := func(p takerPlane) module.Plane { return p }
	nested := func(why error) func(takerPlane) module.Plane {
		return func(p takerPlane) module.Plane { return nestedPlane{p, why} }
	}
	sharer := func(why error) func(takerPlane) module.Plane {
		return func(p takerPlane) module.Plane { return sharerPlane{p, why} }
	}
	for name, test := range map[string]struct {
		one, other     func(takerPlane) module.Plane
		owner, refused string
	}{
		"nested first":   {nested(nil), sharer(nil), "other", ""},
		"sharer first":   {sharer(nil), nested(nil), "one", ""},
		"neither":        {plain, plain, "", "eth0: both one and other of this policy replace its queues"},
		"no sharer":      {nested(nil), plain, "", "both one and other"},
		"cannot nest":    {nested(errors.New("too wide")), sharer(nil), "", "replace its queues: too wide"},
		"kernel without": {nested(nil), sharer(errors.New("no fq")), "", "replace its queues: no fq"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{Modules: []module.Module{ownerModule{name: "one", plane: test.one}, ownerModule{name: "other", plane: test.other}}}
			got, err := e.ownersOf(&state{Host: []policy.Item{{Module: "one"}, {Module: "other"}}})
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%v, want %q", err, test.refused)
				}
				return
			}
			both := map[string]map[string]bool{"one": {"eth0": true}, "other": {"eth0": true}}
			if diff := cmp.Diff(both, got.shared); err != nil || diff != "" || got.by["eth0"] != test.owner {
				t.Errorf("%s has it, %v\n%s", got.by["eth0"], err, diff)
			}
		})
	}
}

// A room moves out of its own tree before the other one puts its tree there, and back into its own
// after that is gone; both are told whether they share. What fails is led back in the same way.
func TestADeviceComesToBeShared(t *testing.T) {
	var log []string
	fails := false
	e := &Engine{Modules: []module.Module{
		ownerModule{name: "limit", log: &log, fails: new(bool), plane: func(p takerPlane) module.Plane { return nestedPlane{p, nil} }},
		ownerModule{name: "links", log: &log, fails: &fails, plane: func(p takerPlane) module.Plane { return sharerPlane{p, nil} }},
	}}
	limit, links := policy.Item{Module: "limit"}, policy.Item{Module: "links"}
	one, both := &state{Host: []policy.Item{limit}}, &state{Host: []policy.Item{limit, links}}
	for _, step := range []struct {
		have, next *state
		fails      bool
		want       []string
	}{
		{one, both, false, []string{"limit yields, shared true", "limit applies, shared true", "links applies, shared true"}},
		{both, one, false, []string{"links yields, shared false", "limit applies, shared false", "links releases"}},
		{one, both, true, []string{"limit yields, shared true", "limit applies, shared true", "links applies, shared true",
			"links yields, shared false", "links releases", "limit applies, shared false"}},
	} {
		log, fails = nil, step.fails
		if _, undone, err := e.enforce(step.have, step.next); undone != step.fails || (err != nil) != step.fails {
			t.Errorf("undone: %t, %v", undone, err)
		}
		if diff := cmp.Diff(step.want, log); diff != "" {
			t.Error(diff)
		}
	}
}
