package browser_test

import "testing"

// rules are those of axe-core that matter on a page without scripts: a script that lists what
// breaks them, each with the rule's name.
const rules = `(() => {
	const found = [], say = (rule, e) => found.push(rule + ': ' + (e.outerHTML || String(e)).slice(0, 120));
	const all = s => Array.from(document.querySelectorAll(s));
	const hidden = e => e.closest('[aria-hidden=true]') || !e.getClientRects().length;
	const name = e => (e.getAttribute('aria-label') || e.textContent || '').trim();
	if (!document.documentElement.lang) say('html-has-lang', document.documentElement.tagName);
	if (!document.title.trim()) say('document-title', 'none');
	if (all('main').length != 1) say('landmark-one-main', all('main').length);
	if (all('h1').length != 1) say('page-has-heading-one', all('h1').length);
	let level = 0;
	for (const h of all('h1,h2,h3,h4')) {
		const n = +h.tagName[1];
		if (n > level + 1) say('heading-order', h);
		if (!name(h)) say('empty-heading', h);
		level = n;
	}
	for (const e of all('nav')) if (!e.getAttribute('aria-label')) say('landmark-unique', e);
	for (const e of all('a,button,summary')) if (!hidden(e) && !name(e)) say('link-name', e);
	for (const e of all('a[href^="#"]')) if (!document.getElementById(e.getAttribute('href').slice(1))) say('skip-link', e);
	for (const e of all('input:not([type=hidden]),select')) if (!e.getAttribute('aria-label') && !e.labels.length) say('label', e);
	for (const e of all('svg')) if (!hidden(e) && !(e.getAttribute('role') == 'img' && name(e))) say('svg-img-alt', e);
	for (const e of all('th')) if (!name(e)) say('empty-table-header', e.closest('table'));
	const ids = new Set();
	for (const e of all('[id]')) { if (ids.has(e.id)) say('duplicate-id', e); ids.add(e.id); }
	const rgb = s => (s.match(/[\d.]+/g) || []).map(Number);
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Set();
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		if (!texts.currentNode.textContent.trim() || seen.has(e) || !e.getClientRects().length || e.closest('style,title,option')) continue;
		seen.add(e);
		let under = e, back = [0, 0, 0, 0];
		for (; under; under = under.parentElement) { back = rgb(getComputedStyle(under).backgroundColor); if (back.length == 3 || back[3] == 1) break; }
		const style = getComputedStyle(e), front = rgb(e.closest('svg') ? style.fill : style.color);
		const [a, b] = [light(front), light(under ? back : [255, 255, 255])], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) say('color-contrast ' + ratio.toFixed(1), e);
	}
	return found;
})()`

func breaches(b *browser) []string { return eval[[]string](b, rules) }

// No page breaks the rules, in either colour scheme.
func everyPageIsAccessible(t *testing.T, b *browser, url string) {
	for _, l := range []look{looksAt[0], looksAt[3]} {
		b.wear(l)
		for name, query := range pages {
			if query == "" {
				query = "?unfold=all"
			}
			b.open(url + query)
			for _, broken := range breaches(b) {
				t.Errorf("%s, %s: %s", name, l.name, broken)
			}
		}
	}
}

// A page that breaks them is noticed: else the test above could not fail.
func rulesNotice(t *testing.T, b *browser, naive func(html string) string) {
	b.open(naive(`<p style="color: #bbb; background: #fff">pale</p><h3>deep</h3><a href="/"></a><a href="#none">x</a><input name="q"><svg width="9" height="9"></svg>`))
	for _, rule := range []string{"html-has-lang", "landmark-one-main", "page-has-heading-one", "heading-order", "link-name", "skip-link", "label", "svg-img-alt", "color-contrast"} {
		noticed := false
		for _, found := range breaches(b) {
			noticed = noticed || len(found) >= len(rule) && found[:len(rule)] == rule
		}
		if !noticed {
			t.Errorf("the rule %s notices nothing", rule)
		}
	}
}
