package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"

	"weir/internal/fault"
	"weir/internal/kernel/ethtool"
	"weir/internal/nearest"
	"weir/internal/units"
	"weir/policy"
)

// PolicyResult is what a plan would do, or an apply has done.
type PolicyResult struct {
	Outcome
	Warnings []string `json:"warnings,omitempty" doc:"What the policy allows and probably does not mean, with its place and a way out."`
}

// Take gives a policy's scopes to Plan or Apply, and says what of it is probably not meant on this host. The warnings of the
// file itself are there with an error too.
func (e *Engine) Take(p *policy.Policy, do func([]policy.Scope) (Outcome, error)) (PolicyResult, error) {
	result := PolicyResult{Warnings: p.Warnings}
	if err := impossible(p); err != nil {
		return result, err
	}
	out, err := do(p.Scopes)
	if err != nil {
		return result, err
	}
	kinds := map[string]policy.Kind{}
	for _, s := range p.Scopes {
		kinds[s.Name] = s.Applies.Kind
	}
	for i, w := range out.Waiting {
		out.Waiting[i].Place = p.At(w.Scope, string(kinds[w.Scope]))
	}
	result.Outcome = out
	for _, doubts := range [][]string{shared(p, out.held), faster(p, linkSpeed, hardwareSpeed()), e.misspelt(p, out)} {
		result.Warnings = append(result.Warnings, doubts...)
	}
	return result, nil
}

// impossible names limits that the data plane refuses: thresholds that do not fit each other or the defaults of those left out,
// which follow from the rate. What is refused half-way would have to be undone.
func impossible(p *policy.Policy) error {
	var refused []error
	for _, s := range p.Scopes {
		for _, direction := range []struct {
			name string
			rate *policy.Rate
		}{{"egress", s.Egress}, {"ingress", s.Ingress}} {
			if direction.rate == nil {
				continue
			}
			if err := limitOf(s, direction.rate).Check(); err != nil {
				refused = append(refused, fmt.Errorf("%s: scopes.%s: %s: %w", p.At(s.Name, direction.name), s.Name, direction.name, err))
			}
		}
	}
	return fault.Wrap(errors.Join(refused...), fault.Usage, "change the thresholds, or leave them out for the defaults: docs/formats/policy.md#a-rate")
}

// shared warns of scopes that stand for the same traffic on this host, such as a unit and its cgroup.
func shared(p *policy.Policy, all []held) (warnings []string) {
	first := map[binding]policy.Scope{}
	for _, h := range all {
		if h.Bound.Kind == "" {
			continue
		}
		if other, twice := first[h.Bound]; twice {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: %s is what scope %s, at %s, stands for too, and only the later one counts: keep one of the two",
				p.At(h.Scope.Name, string(h.Scope.Applies.Kind)), h.Scope.Name, h.Scope.Applies, other.Name, p.At(other.Name, string(other.Applies.Kind))))
		}
		first[h.Bound] = h.Scope
	}
	return warnings
}

// faster warns of rates that no link can carry: an interface's own, or for other scopes all links of the host together. A
// speed of 0 is not known and warns of nothing.
func faster(p *policy.Policy, speed func(device string) units.BitRate, together units.BitRate) (warnings []string) {
	for _, s := range p.Scopes {
		carries, who := together, "the links of this host carry"
		if s.Applies.Kind == policy.Interface {
			carries, who = speed(s.Applies.Text), s.Applies.Text+" carries"
		}
		for _, d := range (ScopeStatus{Scope: s}).directions() {
			if d.rate != nil && carries > 0 && d.rate.Rate > carries {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since %s %s: give less, or leave it out",
					p.At(s.Name, d.name), s.Name, d.name, d.rate.Rate, who, carries))
			}
		}
	}
	return warnings
}

// linkSpeed is that of a device here; 0 if it is not known.
func linkSpeed(device string) units.BitRate {
	speed, err := ethtool.Speed(nil, device)
	if err != nil {
		return 0
	}
	return speed
}

// hardwareSpeed is the sum of all devices that have hardware behind them, or 0 if one of them does not say.
func hardwareSpeed() (sum units.BitRate) {
	devices, err := ethtool.Hardware()
	if err != nil {
		return 0
	}
	for _, device := range devices {
		speed := linkSpeed(device)
		if speed == 0 {
			return 0
		}
		sum += speed
	}
	return sum
}

// maxHints bounds the search for names that were probably meant: a policy may wait for thousands of cgroups.
const maxHints = 20

// misspelt warns of scopes that wait for something whose name is close to one that is there.
func (e *Engine) misspelt(p *policy.Policy, out Outcome) (warnings []string) {
	look := &binder{root: e.CgroupRoot}
	missing := 0
	for _, h := range out.held {
		if h.Bound.Missing == "" {
			continue
		}
		if missing++; missing > maxHints {
			break
		}
		kind := h.Scope.Applies.Kind
		if near := look.near(h.Scope.Applies); near != "" {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: %s (did you mean %q?): it waits until there is one",
				p.At(h.Scope.Name, string(kind)), h.Scope.Name, h.Bound.Missing, near))
		}
	}
	return warnings
}

// near returns what is there and was probably meant, or "".
func (b *binder) near(s policy.Selector) string {
	var names []string
	switch s.Kind {
	case policy.Interface:
		devices, err := net.Interfaces()
		if err != nil {
			return ""
		}
		for _, d := range devices {
			names = append(names, d.Name)
		}
		return nearest.Of(s.Text, names)
	case policy.Unit:
		if _, err := b.bindUnit(s.Text); err != nil {
			return ""
		}
		for name := range b.units {
			names = append(names, name)
		}
	case policy.Cgroup:
		for parent, rest := "/", strings.TrimPrefix(s.Text, "/"); ; {
			name, below, _ := strings.Cut(rest, "/")
			next := path.Join(parent, name)
			if _, err := os.Stat(filepath.Join(b.root, next)); err == nil && below != "" {
				parent, rest = next, below
				continue
			}
			near := nearName(name, folderNames(filepath.Join(b.root, parent)))
			if near == "" {
				return ""
			}
			return path.Join(parent, near, below)
		}
	}
	return nearName(s.Text, names)
}

func folderNames(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// nearName is nearest.Of, but names that differ in their numbers alone are different things: tenant-1 and tenant-2.
func nearName(word string, names []string) string {
	near := nearest.Of(word, names)
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	if near == "" || plain(near) == plain(word) {
		return ""
	}
	return near
}
