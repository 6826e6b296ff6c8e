package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/onceward/onceward/deadletter"
)

// whyNot is a reason for which letters are not sent.
type whyNot struct {
	Did     deadletter.Did    `json:"did,omitzero"`    // by an application
	Action  deadletter.Action `json:"action,omitzero"` // of a plan
	Why     string            `json:"why"`
	Count   int               `json:"count"`
	Example string            `json:"example,omitzero"` // dl-id
}

// reasons counts why letters are not sent. The ids in what is told are left
// out, so that reasons are few.
type reasons map[[2]string]*whyNot

// maxReasons bounds what a plan of somebody else's making takes.
const maxReasons = 100

// add counts one letter, the example of a reason that is new.
func (r reasons) add(one whyNot) {
	key := [2]string{string(one.Did) + string(one.Action), deadletter.Pattern(one.Why)}
	w := r[key]
	if w == nil {
		if len(r) == maxReasons {
			return
		}
		w = &one
		r[key] = w
	}
	w.Count++
}

// list is the reasons, the most frequent first.
func (r reasons) list() []whyNot {
	var all []whyNot
	for _, w := range r {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(x, y whyNot) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Did, y.Did), cmp.Compare(x.Action, y.Action), cmp.Compare(x.Why, y.Why))
	})
	return all
}

// shownReasons is as many as a person reads; --json has all.
const shownReasons = 10

// addReasons adds the most frequent reasons.
func (f facts) addReasons(all []whyNot) {
	for _, w := range all[:min(len(all), shownReasons)] {
		text := fmt.Sprintf("%d: %s", w.Count, w.Why)
		if w.Example != "" {
			text += fmt.Sprintf(" (such as %s)", w.Example)
		}
		f.add(cmp.Or(string(w.Did), string(w.Action)), text)
	}
	if more := len(all) - shownReasons; more > 0 {
		f.add("", fmt.Sprintf("and %d reasons more, which --json shows", more))
	}
}
