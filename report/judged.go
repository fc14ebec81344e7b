package report

// A judgedPage is one judgement as the page shows it.
type judgedPage struct {
	Claim, Says, Published, Ours, Verdict, Why, Class string
}

func newJudgedPages(j Judgements) []judgedPage {
	pages := []judgedPage{} // not nil: the part is there though it be empty
	for _, r := range j.Rows {
		pages = append(pages, judgedPage{
			Claim: clean(r.Claim), Says: typeset(clean(r.Says)), Published: typeset(orElse(clean(r.Published), "no figure")),
			Ours: typeset(orElse(clean(r.Ours), "no figure")), Verdict: orElse(clean(r.Verdict), "not yet run"),
			Why: typeset(clean(r.Why)), Class: toneClass(r.Tone),
		})
	}
	return pages
}
