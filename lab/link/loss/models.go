// SPDX-License-Identifier: Apache-2.0

package loss

// Loss says how a direction loses frames: the name of a model, and the parameters of all models, of
// which those of the named one count. The zero value loses nothing. It can be compared, and written
// as JSON; parameters of two models need different names.
type Loss struct {
	Model string
	Independent
	Gilbert
	EveryNth
}

// Keys are those of all models in a scenario.
type Keys struct {
	independentKeys
	gilbertKeys
	everyNthKeys
}

func (l Loss) each() []Model { return []Model{l.Independent, l.Gilbert, l.EveryNth} }

func (k *Keys) each() []keysOf { return []keysOf{&k.independentKeys, &k.gilbertKeys, &k.everyNthKeys} }
