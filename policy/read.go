package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// MaxFile is the longest policy file, in octets: room for as many scopes as a data plane holds, and comments beside.
const MaxFile = 8 << 20

var limits = yamlfile.Limits{Octets: MaxFile, Values: 500_000}

const tryReference = "correct the file at the places named; docs/formats/policy.md describes the format"

// Load reads a policy file.
func Load(filename string) (*Policy, error) {
	text, err := ReadFile(filename)
	if err != nil {
		return nil, err
	}
	return Parse(filename, text)
}

// ReadFile reads the text of a policy file.
func ReadFile(filename string) ([]byte, error) {
	info, err := os.Stat(filename)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.Usage, "name a policy file; docs/formats/policy.md has examples", "there is no file %s", filename)
	case err != nil:
		return nil, fault.Wrap(fmt.Errorf("read policy: %w", err), fault.Permission, "make the file readable")
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.Usage, "name a policy file", "%s is no regular file", filename)
	case info.Size() > MaxFile:
		return nil, fault.New(fault.Usage, "split the scopes over hosts, or leave comments out", "%s has %d octets; %d are allowed", filename, info.Size(), MaxFile)
	}
	text, err := os.ReadFile(filename)
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read policy: %w", err), fault.Permission, "make the file readable")
	}
	return text, nil
}

// Parse reads a policy from a file's text. Its errors are faults of status Usage that name every mistake with its place.
func Parse(filename string, text []byte) (*Policy, error) {
	tree, err := yamlfile.ParseWithin(limits, filename, text)
	if err != nil {
		return nil, err
	}
	var problems yamlfile.Problems
	var raw file
	tree.Decode(&raw, nil, &problems)
	unread := problems.Len() > 0
	if raw.Version != 1 && (!unread || raw.Version != 0) {
		problems.Add(raw.At("version"), "", "version %d is not known: this Weir reads version 1", raw.Version)
	}
	p := &Policy{written: map[string]written{}}
	t := newTree(raw.Scopes)
	first := map[Selector]yamlfile.Text{}
	for _, entry := range raw.Scopes {
		if entry.Value.Flawed() {
			continue // or one mistake would be told as two
		}
		// Whose child cannot be read may be a parent.
		scope := entry.Value.scope(entry.Key, unread || t.parents[entry.Key.Value], &problems)
		if other, twice := first[scope.Applies]; twice && scope.Applies.Kind != "" && scope.Applies.Kind != Group {
			problems.Add(entry.Key.Place, fmt.Sprintf("keep one of %s and %s, with the limit that is meant", other.Value, scope.Name),
				"scopes.%s: %s has a scope already, %s at %s: two limits on the same traffic contradict each other",
				scope.Name, scope.Applies, other.Value, other.Place)
		} else {
			first[scope.Applies] = entry.Key
		}
		p.Scopes = append(p.Scopes, scope)
		p.written[scope.Name] = written{entry.Key.Place, entry.Value.Fields}
	}
	if t.check(&problems); problems.Len() == 0 {
		t.share(p.Scopes, &problems)
	}
	if err := problems.Err(tryReference); err != nil {
		return nil, err
	}
	p.Warnings = slices.Concat(p.neverReached(), t.warnings(p), p.tooSlow(), p.exempt())
	return p, nil
}

// scope checks one scope of the file.
func (f *scopeFile) scope(name yamlfile.Text, isParent bool, problems *yamlfile.Problems) Scope {
	complain := func(key, format string, args ...any) {
		problems.Add(f.At(key), "", "scopes.%s: %s", name.Value, fmt.Sprintf(format, args...))
	}
	s := Scope{Name: name.Value, Shadow: f.Shadow, Loopback: f.Loopback, Parent: f.Parent, Applies: f.selector(isParent, complain)}
	if f.Egress == nil && f.Ingress == nil && f.Parent == "" {
		complain("", "limits nothing: give egress, ingress or both")
	}
	s.Egress = f.Egress.rate("egress", f.Parent != "", complain)
	s.Ingress = f.Ingress.rate("ingress", f.Parent != "", complain)
	return s
}

// selector reads the one key that says which traffic is meant. A parent may do without.
func (f *scopeFile) selector(isParent bool, complain func(key, format string, args ...any)) Selector {
	var given []Selector
	if f.Cgroup != "" {
		clean := path.Clean("/" + f.Cgroup)
		if clean == "/" {
			complain("cgroup", "the root cgroup is the whole host: write host: true")
		}
		given = append(given, Selector{Kind: Cgroup, Text: clean})
	}
	if f.Unit != "" {
		if strings.ContainsAny(f.Unit, "/ ") || !strings.Contains(f.Unit, ".") {
			complain("unit", "%q is no systemd unit: write its whole name, as in backup.service", f.Unit)
		}
		given = append(given, Selector{Kind: Unit, Text: f.Unit})
	}
	if f.User != nil {
		if *f.User < 0 || *f.User > 1<<32-2 {
			complain("user", "%d is no user id", *f.User)
		}
		given = append(given, Selector{Kind: User, User: uint32(*f.User)})
	}
	if f.Interface != "" {
		if len(f.Interface) > 15 || strings.ContainsAny(f.Interface, "/ ") {
			complain("interface", "%q is no device name", f.Interface)
		}
		given = append(given, Selector{Kind: Interface, Text: f.Interface})
	}
	if f.Prefix != "" {
		prefix, err := netip.ParsePrefix(f.Prefix)
		if err != nil {
			complain("prefix", "%q is no prefix: write it as in 10.0.0.0/8 or 2001:db8::/32", f.Prefix)
		}
		given = append(given, Selector{Kind: Prefix, Prefix: prefix.Masked()})
	}
	if f.Host {
		given = append(given, Selector{Kind: Host})
	}
	switch {
	case len(given) == 1:
		return given[0]
	case len(given) == 0 && isParent:
		return Selector{Kind: Group}
	}
	complain("", "says %d times which traffic is meant: give exactly one of cgroup, unit, user, interface, prefix, host, "+
		"or none in a group, which other scopes name as their parent", len(given))
	return Selector{}
}

// The range of rates that the data plane holds to.
const (
	minRate units.BitRate = 64_000
	maxRate units.BitRate = 400_000_000_000
	// maxWeight and maxDepth are its limits too: a packet is charged to so many scopes.
	maxWeight = 10_000
	maxDepth  = 4
)

// rate checks what can be seen of a direction alone; a child's part in its parent is seen to by tree.share.
func (f *rateFile) rate(direction string, child bool, complain func(key, format string, args ...any)) *Rate {
	if f == nil {
		return nil
	}
	r := &Rate{}
	switch {
	case f.Rate != nil && (*f.Rate < minRate || *f.Rate > maxRate):
		complain(direction, "%s: rate %s is outside %s to %s", direction, *f.Rate, minRate, maxRate)
	case f.Rate != nil:
		r.Rate = *f.Rate
	case !child:
		complain(direction, "%s: no rate is given: only a scope with a parent may leave it out", direction)
	}
	if f.Weight != nil {
		if r.Weight = *f.Weight; r.Weight < 1 || r.Weight > maxWeight {
			complain(direction, "%s: weight %d is outside 1 to %d", direction, r.Weight, maxWeight)
		}
	}
	if f.Min != nil {
		r.Min = *f.Min
	}
	if !child && (f.Weight != nil || f.Min != nil) {
		complain(direction, "%s: min and weight speak of a part in a parent: name one with parent", direction)
	}
	for _, threshold := range []struct {
		from *units.Duration
		to   *time.Duration
	}{{f.Burst, &r.Burst}, {f.Mark, &r.Mark}, {f.Drop, &r.Drop}} {
		if threshold.from != nil {
			*threshold.to = time.Duration(*threshold.from)
		}
	}
	if r.Mark != 0 && r.Drop != 0 && r.Mark >= r.Drop {
		complain(direction, "%s: mark %s is not below drop %s", direction, r.Mark, r.Drop)
	}
	return r
}
