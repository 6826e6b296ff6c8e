package adminapi

import "github.com/onceward/onceward/dedup"

// Letter is a [dedup.Letter], the store's note of a dead letter.
type Letter struct {
	ID      Text        `json:"id,omitzero"`
	Key     Key         `json:"key,omitzero"`
	State   LetterState `json:"state"`
	Reason  Text        `json:"reason,omitzero"`
	Run     uint32      `json:"run,omitzero"`
	Opened  uint64      `json:"opened,omitzero"`
	Source  Position    `json:"source,omitzero"`
	Time    Time        `json:"time,omitzero"`
	Noted   Time        `json:"noted,omitzero"`
	Moved   Time        `json:"moved,omitzero"`
	Token   Text        `json:"token,omitzero"`
	Job     Text        `json:"job,omitzero"`
	Expired bool        `json:"expired,omitzero"`
	Answer  State       `json:"answer,omitzero"`
	Who     Text        `json:"who,omitzero"`
	Why     Text        `json:"why,omitzero"`
}

// OfLetter is l as JSON.
func OfLetter(l *dedup.Letter) *Letter {
	return &Letter{
		ID: Text(l.ID), Key: OfKey(l.Key), State: LetterState(l.State), Reason: Text(l.Reason), Run: l.Run, Opened: l.Opened,
		Source: ofPosition(l.Source), Time: Time(l.Time), Noted: Time(l.Noted), Moved: Time(l.Moved),
		Token: Text(l.Token), Job: Text(l.Job), Expired: l.Expired, Answer: State(l.Answer), Who: Text(l.Who), Why: Text(l.Why),
	}
}

// Dedup is l as the store has it.
func (l *Letter) Dedup() dedup.Letter {
	return dedup.Letter{
		ID: string(l.ID), Key: l.Key.Dedup(), State: dedup.LetterState(l.State), Reason: string(l.Reason), Run: l.Run, Opened: l.Opened,
		Source: l.Source.dedup(), Time: l.Time.Time(), Noted: l.Noted.Time(), Moved: l.Moved.Time(),
		Token: string(l.Token), Job: string(l.Job), Expired: l.Expired, Answer: dedup.State(l.Answer), Who: string(l.Who), Why: string(l.Why),
	}
}
