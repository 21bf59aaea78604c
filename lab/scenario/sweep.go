// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/record"
)

// MaxCells is the maximum number of combinations. At a second per run they take three hours.
const MaxCells = 10_000

// maxWork bounds combinations times values of the file (without the sweep), since each combination
// reads the file again.
const maxWork = 2_000_000

const trySmaller = "sweep fewer values, or split the scenario"

var parameterName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// parameter is a dimension of the sweep as the file gives it.
type parameter struct {
	Parameter
	place yamlfile.Place
	// variants holds the variables that each value sets if the file names values by a mapping; nil
	// for a list.
	variants map[string]map[string]yamlfile.Text
}

// readSweep reads the parameters; the fallback's comes last.
func readSweep(root *yamlfile.Node, p *yamlfile.Problems) []parameter {
	var sweep yamlfile.Map[*yamlfile.Node]
	if node := root.Get("sweep"); node != nil {
		node.Decode("sweep", &sweep, nil, p)
	}
	var all []parameter
	for _, entry := range sweep {
		q := parameter{Parameter: Parameter{Name: entry.Key.Value}, place: entry.Key.Place}
		path := "sweep." + q.Name
		switch entry.Value.Kind {
		case yamlfile.Mapping:
			q.readVariants(entry.Value, path, p)
		case yamlfile.Scalar:
			p.Add(entry.Value.Place, fmt.Sprintf("write [%s]", entry.Value.Text), "%s: expected a list of values, found a single value", path)
			q.Values = []string{entry.Value.Text}
		default:
			entry.Value.Decode(path, &q.Values, nil, p)
		}
		q.check(p)
		all = append(all, q)
	}
	if node := root.Get("fallback"); node != nil {
		var f fallbackFile
		node.Decode("fallback", &f, nil, p)
		q := parameter{Parameter: Parameter{Name: f.Parameter, Values: f.Values}, place: f.At("parameter")}
		if slices.ContainsFunc(all, func(have parameter) bool { return have.Name == q.Name }) {
			p.Add(q.place, "keep it in one of the two", "fallback: ${%s} is a parameter of the sweep already", q.Name)
			return all
		}
		q.check(p)
		all = append(all, q)
	}
	return all
}

func (q *parameter) readVariants(n *yamlfile.Node, path string, p *yamlfile.Problems) {
	var values yamlfile.Map[yamlfile.Map[yamlfile.Text]]
	n.Decode(path, &values, nil, p)
	q.variants = map[string]map[string]yamlfile.Text{}
	for _, v := range values {
		q.Values = append(q.Values, v.Key.Value)
		sets := map[string]yamlfile.Text{}
		for _, variable := range v.Value {
			sets[variable.Key.Value] = variable.Value
		}
		q.variants[v.Key.Value] = sets
	}
	for _, v := range values {
		for _, other := range values {
			for name := range q.variants[other.Key.Value] {
				if _, given := q.variants[v.Key.Value][name]; !given {
					p.Add(v.Key.Place, "", "%s.%s: does not set %q, which %q sets", path, v.Key.Value, name, other.Key.Value)
				}
			}
		}
	}
}

func (q *parameter) check(p *yamlfile.Problems) {
	if !parameterName.MatchString(q.Name) && q.Name != "" {
		p.Add(q.place, "", "parameter %q: a name has small letters, digits and _, begins with a letter and is at most 31 long", q.Name)
	}
	if q.Name == SoloLabel || q.Name == PhaseLabel {
		p.Add(q.place, "give the parameter another name", "parameter %q: results have a label of that name of their own", q.Name)
	}
	if len(q.Values) == 0 {
		p.Add(q.place, "", "parameter %q has no values", q.Name)
	}
	for i, v := range q.Values {
		if slices.Contains(q.Values[:i], v) {
			p.Add(q.place, "", "parameter %q has the value %q twice", q.Name, v)
		}
	}
}

// variables returns the values of ${name} in one combination. A variant's text may use parameters
// with a list of values.
func variables(parameters []parameter, chosen record.Labels, p *yamlfile.Problems) *yamlfile.Variables {
	vars := &yamlfile.Variables{Values: map[string]string{}, Used: map[string]bool{}}
	for _, q := range parameters {
		vars.Names = append(vars.Names, q.Name)
		vars.Values[q.Name] = chosen[q.Name]
	}
	plain := yamlfile.Variables{Values: vars.Values, Names: slices.Clone(vars.Names), Used: vars.Used}
	set := map[string]string{}
	for _, q := range parameters {
		for name, text := range q.variants[chosen[q.Name]] {
			value, err := plain.Expand(text.Value)
			if err != nil {
				p.Add(text.Place, "", "sweep.%s.%s.%s: %v", q.Name, chosen[q.Name], name, err)
			}
			if _, taken := vars.Values[name]; taken {
				p.Add(text.Place, "", "sweep.%s: %q is a parameter already", q.Name, name)
			}
			if _, taken := set[name]; taken {
				p.Add(text.Place, "", "sweep.%s: %q is set by another parameter too", q.Name, name)
			}
			set[name] = value
			vars.Names = append(vars.Names, name)
		}
	}
	slices.Sort(vars.Names)
	values := make(map[string]string, len(set)+len(vars.Values))
	for name, value := range vars.Values {
		values[name] = value
	}
	for name, value := range set {
		values[name] = value
	}
	vars.Values = values
	return vars
}

// unused reports parameters that no ${} uses, by name or by one of their variables.
func unused(parameters []parameter, used map[string]bool, p *yamlfile.Problems) {
	for _, q := range parameters {
		found := used[q.Name]
		for _, sets := range q.variants {
			for name := range sets {
				found = found || used[name]
			}
		}
		if !found && len(q.Values) > 0 {
			p.Add(q.place, fmt.Sprintf("write ${%s} where it belongs, or remove it", q.Name), "parameter %q is not used", q.Name)
		}
	}
}

// affordable rejects a sweep that is too large to expand; skipped combinations count.
func (c *checked) affordable() error {
	total := 1
	for _, q := range c.parameters {
		if total *= len(q.Values); total > MaxCells {
			return fault.New(fault.Usage, trySmaller, "%s: the sweep has more than %d combinations", c.filename, MaxCells)
		}
	}
	size := c.tree.Root.Size()
	if sweep := c.tree.Root.Get("sweep"); sweep != nil {
		size -= sweep.Size()
	}
	if total*size > maxWork {
		return fault.New(fault.Usage, trySmaller, "%s: the sweep has %d combinations of a file of %d values; at most %d would fit", c.filename, total, size, maxWork/size)
	}
	return nil
}

// combinations returns the labels of every cell; the first parameter changes slowest.
func combinations(parameters []parameter, skip []skipFile) []record.Labels {
	total := 1
	for _, q := range parameters {
		total *= len(q.Values)
	}
	all := make([]record.Labels, 0, total)
	for i := range total {
		labels := record.Labels{}
		for j := len(parameters) - 1; j >= 0; j-- {
			q := parameters[j]
			labels[q.Name] = q.Values[i%len(q.Values)]
			i /= len(q.Values)
		}
		if !slices.ContainsFunc(skip, func(s skipFile) bool { return skipped(labels, s) }) {
			all = append(all, labels)
		}
	}
	return all
}

func skipped(labels record.Labels, s skipFile) bool {
	for _, pair := range s {
		if !slices.ContainsFunc(pair.Value, func(v string) bool { return sameValue(v, labels[pair.Key.Value]) }) {
			return false
		}
	}
	return len(s) > 0
}

// sameValue compares values without spaces: "1 %" and "1%" are the same.
func sameValue(a, b string) bool {
	return a == b || strings.ReplaceAll(a, " ", "") == strings.ReplaceAll(b, " ", "")
}

// resolve returns the parameter's own spelling of a value, or a hint for an unknown one.
func resolve(parameters []parameter, name, value string) (spelled string, mistake string) {
	for _, q := range parameters {
		if q.Name != name {
			continue
		}
		for _, v := range q.Values {
			if sameValue(v, value) {
				return v, ""
			}
		}
		return "", fmt.Sprintf("%q is not a value of %q%s", value, name, listOrHint(value, q.Values))
	}
	names := make([]string, len(parameters))
	for i, q := range parameters {
		names[i] = q.Name
	}
	return "", fmt.Sprintf("unknown parameter %q%s", name, listOrHint(name, names))
}

func listOrHint(word string, candidates []string) string {
	if hint := nearest.Hint(word, candidates); hint != "" {
		return hint
	}
	if len(candidates) == 0 {
		return "; the scenario has no parameters"
	}
	return "; known: " + strings.Join(candidates, ", ")
}

// find returns the parameter of that name.
func find(parameters []parameter, name string) *parameter {
	for i := range parameters {
		if parameters[i].Name == name {
			return &parameters[i]
		}
	}
	return nil
}
