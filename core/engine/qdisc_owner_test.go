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

// ownerModule replaces the qdisc tree of eth0 if the state has an item of the module.
type ownerModule struct {
	module.Module
	name  string
	plane func(ownerPlane) module.Plane
	log   *[]string
	fails *bool // its next Apply fails
}

func (r ownerModule) Name() string { return r.name }

func (r ownerModule) Plane(module.Host) module.Plane {
	return r.plane(ownerPlane{r.name, r.log, r.fails})
}

type ownerPlane struct {
	name  string
	log   *[]string
	fails *bool
}

func (p ownerPlane) say(format string, args ...any) {
	*p.log = append(*p.log, p.name+" "+fmt.Sprintf(format, args...))
}

func (ownerPlane) Ready(module.State) error                   { return nil }
func (ownerPlane) InPlace(module.State) (bool, error)         { return true, nil }
func (ownerPlane) Report(module.State) (module.Report, error) { return module.Report{}, nil }

func (p ownerPlane) Apply(_, want module.State) ([]string, error) {
	p.say("applies, shared %v", want.Shared["eth0"])
	if *p.fails {
		*p.fails = false
		return nil, errors.New("it fails")
	}
	return nil, nil
}

func (p ownerPlane) Release() (bool, error) {
	p.say("releases")
	return true, nil
}

func (ownerPlane) QdiscDevices(s module.State) []string {
	if s.Empty() {
		return nil
	}
	return []string{"eth0"}
}

func (p ownerPlane) Yield(want module.State) error {
	p.say("yields, shared %v", want.Shared["eth0"])
	return nil
}

func (ownerPlane) CanHost() error                     { return module.ErrNotShared }
func (ownerPlane) CanNest(module.State, string) error { return module.ErrNotShared }

type nestedPlane struct {
	ownerPlane
	why error
}

func (p nestedPlane) CanNest(module.State, string) error { return p.why }

type hostPlane struct {
	ownerPlane
	why error
}

func (p hostPlane) CanHost() error { return p.why }

// Two modules can share a device if the packets of one can wait in the qdisc tree of the other.
func TestOwnersOfADevice(t *testing.T) {
	plain := func(p ownerPlane) module.Plane { return p }
	nested := func(why error) func(ownerPlane) module.Plane {
		return func(p ownerPlane) module.Plane { return nestedPlane{p, why} }
	}
	host := func(why error) func(ownerPlane) module.Plane {
		return func(p ownerPlane) module.Plane { return hostPlane{p, why} }
	}
	for name, test := range map[string]struct {
		one, other     func(ownerPlane) module.Plane
		owner, refused string
	}{
		"nested first":   {nested(nil), host(nil), "other", ""},
		"host first":     {host(nil), nested(nil), "one", ""},
		"neither":        {plain, plain, "", "eth0: both one and other of this policy replace its queues"},
		"no host":        {nested(nil), plain, "", "both one and other"},
		"cannot nest":    {nested(errors.New("too wide")), host(nil), "", "replace its queues: too wide"},
		"kernel without": {nested(nil), host(errors.New("no fq")), "", "replace its queues: no fq"},
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
				t.Errorf("owner %s, %v\n%s", got.by["eth0"], err, diff)
			}
		})
	}
}

// A module removes its qdisc tree before another one installs its own, and installs it again after
// the other tree is removed. Both learn whether they share the device. A failed apply is rolled
// back in the same order.
func TestADeviceBecomesShared(t *testing.T) {
	var log []string
	fails := false
	e := &Engine{Modules: []module.Module{
		ownerModule{name: "limit", log: &log, fails: new(bool), plane: func(p ownerPlane) module.Plane { return nestedPlane{p, nil} }},
		ownerModule{name: "links", log: &log, fails: &fails, plane: func(p ownerPlane) module.Plane { return hostPlane{p, nil} }},
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
