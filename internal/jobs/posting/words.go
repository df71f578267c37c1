package posting

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Workplaces finds where the work is done in a board's word for it or in a place
// that names it ("Remote - EU"), and returns the rest, which is the place. An
// empty rest means that the place was nothing but a way to work.
func Workplaces(s string) (found []Workplace, rest string) {
	rest = Text(s)
	for _, w := range workplaces {
		if !w.words.MatchString(rest) {
			continue
		}
		if !slices.Contains(found, w.is) {
			found = append(found, w.is)
		}
		rest = w.words.ReplaceAllString(rest, "$1$2")
	}
	if len(found) == 0 {
		return nil, rest
	}
	rest = empty.ReplaceAllString(rest, "")
	return found, strings.Trim(rest, " -–—,;:/|·•&()[]")
}

var (
	workplaces = []struct {
		is    Workplace
		words *regexp.Regexp
	}{
		{Hybrid, wordsIn(`hybrid(?:e|o|a)?|híbrid[oa]|ibrid[oa]|hybrydow[oay]|flexible|partially remote|partly remote`)},
		{Remote, wordsIn(`(?:fully |100 ?% ?)?remote(?:ly)?(?: (?:only|first|ok|friendly))?|(?:fully )?distributed|home[- ]?office|work from home|wfh|telecommut(?:e|ing)|télétravail|teletrabajo|remot[oa]|zdaln[aeiy]e?|distans|リモート|远程|원격|anywhere`)},
		{OnSite, wordsIn(`on[-_ ]?site|in[-_ ]?office|in[-_ ]?person|vor ort|présentiel|presencial|stacjonarn[aey]|op kantoor|på plats`)},
	}
	empty = regexp.MustCompile(`\(\s*\)|\[\s*\]`)
)

// wordsIn finds whole words, and keeps what stands around them as $1 and $2.
func wordsIn(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[^\pL\d])(?:` + words + `)($|[^\pL\d])`)
}

// TypeOf reads a board's word for the kind of employment. Empty for no word.
func TypeOf(word string) Type {
	word = spaced(word)
	if word == "" {
		return ""
	}
	for _, t := range types {
		if t.words.MatchString(word) {
			return t.is
		}
	}
	return Other
}

var types = []struct {
	is    Type
	words *regexp.Regexp
}{
	{Internship, wordsIn(`intern(?:ship)?s?|trainee(?:ship)?|apprentice(?:ship)?|praktik(?:um|ant(?:in)?)|stage|stagiaire|prácticas|becari[oa]|estágio|tirocinio|alternance|ausbildung|staż`)},
	{PartTime, wordsIn(`part ?time|parttime|teilzeit|temps partiel|tiempo parcial|meio período|tempo parcial|part|deltid|working student|werkstudent(?:in)?|mini ?job`)},
	{Temporary, wordsIn(`temp(?:orary)?|seasonal|aushilfe|intérim|temporal|temporári[oa]|vikariat|casual|per diem`)},
	{Contract, wordsIn(`contract(?:or|ing)?|freelance[r]?|freiberuflich|b2b|autónomo|prestador|consultant`)},
	{FullTime, wordsIn(`full ?time|fulltime|vollzeit|temps plein|tiempo completo|jornada completa|tempo inteiro|tempo integral|tempo pieno|voltijd|heltid|pełny etat|full|cdi`)},
}

// LevelOf reads a board's word for the experience that a posting asks for.
// Empty for no word, and for one that says none of the levels.
func LevelOf(word string) Seniority {
	word = spaced(word)
	for _, l := range levels {
		if l.words.MatchString(word) {
			return l.is
		}
	}
	return ""
}

var levels = []struct {
	is    Seniority
	words *regexp.Regexp
}{
	{Executive, wordsIn(`executive|director|vp|vice president|c level|chief|head of|cto|ceo|cfo`)},
	{Lead, wordsIn(`lead|principal|staff|manager|team ?lead|head`)},
	{Mid, wordsIn(`mid senior(?: level)?`)}, // a step below "senior" where it is used
	{Senior, wordsIn(`senior|sr|experienced|advanced|expert`)},
	{Mid, wordsIn(`mid(?:dle)?(?: ?level)?|midlevel|intermediate|associate|medior|professional`)},
	{Junior, wordsIn(`junior|jr|entry(?: level)?|graduate|beginner|not applicable entry`)},
	{Intern, wordsIn(`intern(?:ship)?|trainee|student|apprentice|working student`)},
}

// spaced takes apart what programs write together: "FullTime", "full_time",
// "fulltime_fixed_term".
func spaced(word string) string {
	var b strings.Builder
	lower := false
	for _, r := range Text(word) {
		switch {
		case r == '_' || r == '-' || r == '.' || r == '/':
			r = ' '
		case lower && r >= 'A' && r <= 'Z':
			b.WriteByte(' ')
		}
		lower = r >= 'a' && r <= 'z'
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// LanguageTag is the BCP 47 tag that a board's code for a language stands for,
// or "" if it stands for none.
func LanguageTag(code string) string {
	code = strings.TrimSpace(code)
	if code == "" || len(code) > 35 {
		return ""
	}
	tag, err := language.Parse(code)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}
