// SPDX-License-Identifier: Apache-2.0

package loss

// Loss is the loss of a direction: the name of a model, and the parameters of all models; only the
// named model's count. The zero value loses nothing. It is comparable and has a JSON form, so the
// parameters of two models need different names.
type Loss struct {
	Model string
	Independent
	Gilbert
	EveryNth
}

// Keys holds the scenario keys of all models.
type Keys struct {
	independentKeys
	gilbertKeys
	everyNthKeys
}

func (l Loss) each() []Model { return []Model{l.Independent, l.Gilbert, l.EveryNth} }

func (k *Keys) each() []keysOf { return []keysOf{&k.independentKeys, &k.gilbertKeys, &k.everyNthKeys} }
