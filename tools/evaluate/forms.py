"""Facts of one form, such as "Gus's locker is 14." for 60 people, with a question that looks one of them up.

The forms were written before the rule that keeps such facts apart was read or changed. Keys are names, numbers and words in lower
case. The half "seen" was looked at while the rule was chosen, and the half "unseen" only at the end.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

FACTS, UPDATED, ASKED, ASKED_UPDATED = 60, 12, 30, 6  # of each form; a fact that is updated is stated twice


class Form(NamedTuple):
    """A statement with a {key} and a {value}, and the question that names the key and asks for the value."""

    half: str
    statement: str
    question: str
    keys: Sequence[str]
    values: Sequence[str]


class Lookup(NamedTuple):
    """A question about one fact of a form, and the statement that answers it today."""

    question: str
    statement: str
    is_updated: bool

    @property
    def telling_words(self) -> str:
        """The question as an agent may search for it: "locker Gus"."""
        words = self.question.replace("'s", "").strip("?").split()
        return " ".join(word for word in words if word.lower() not in LITTLE)


def listed(words: str) -> list[str]:
    return words.split(",") if "," in words else words.split()


def crossed(*lists: str | list[str], by: str = " ") -> list[str]:
    words = (listed(each) if isinstance(each, str) else each for each in lists)
    return [by.join(chosen) for chosen in itertools.product(*words)]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


LITTLE = listed(
    "which what when where who how is was does do the of to for from on we with a welche wie lautet hat der den die von für"
)
NAMES = listed(
    "Ada Ben Cleo Dana Emil Fay Gus Hana Ivo June Kai Lena Milo Nora Otto Pia Quinn Rosa Sami Tess Uma Vera Wim Xenia Yara Zeno"
    " Abel Bea Carl Dora Elsa Finn Greta Hugo Ines Jonas Kira Leo Mara Nils Olga Paul Runa Sven Tara Ugo Viola Walt Yves Zita"
    " Amir Britt Cem Doris Enzo Flora Gina Holger Ilse Jakob"
)
FAMILIES = "Adler Brandt Costa Duarte Eriksen Fontaine"
STONES = "amber basalt cedar delta ember fjord garnet indigo jasper kestrel larch opal"
COLOURS = "red blue green yellow white black orange purple grey brown pink silver"
MONTHS = "January February March April May June July August September October November December"
PLACES = "north south east west upper lower old new"
PARTS = "wing hall floor annex gallery cellar tower yard"
ROOMS = listed(
    "kitchen hallway bathroom bedroom study attic cellar garage nursery pantry library studio laundry lounge porch balcony larder"
    " workshop stable greenhouse conservatory sauna gym vestibule landing scullery foyer lobby canteen archive infirmary chapel"
    " armoury dairy bakery smithy cloakroom playroom boudoir parlour sunroom toolshed boathouse guardroom ballroom cockpit galley"
    " bunkroom showroom stockroom classroom darkroom boardroom mailroom washroom tearoom storeroom sickroom cardroom courtroom"
)
ANIMALS = listed(
    "otter badger heron falcon weasel marten lynx beaver ferret stoat raven magpie swallow plover curlew puffin gannet seal"
    " walrus dolphin porpoise salmon trout perch carp tench bream viper adder toad newt gecko tortoise panther leopard cheetah"
    " jackal hyena buffalo bison moose reindeer gazelle antelope zebra giraffe camel donkey mule gibbon lemur tapir ibex chamois"
    " marmot gopher hamster wombat koala dingo"
)
PLANTS = listed(
    "basil thyme parsley mint sage rosemary oregano chives dill fennel lavender fern ivy cactus aloe orchid palm yucca begonia"
    " geranium petunia pansy tulip lily iris dahlia peony aster daisy jasmine hibiscus camellia azalea gardenia magnolia lilac"
    " hydrangea fuchsia lobelia verbena salvia yarrow lupin foxglove poppy primrose snowdrop crocus hyacinth anemone clematis"
    " wisteria honeysuckle bamboo papyrus bonsai olive lemon fig pomegranate"
)
DISHES = "soup stew risotto curry lasagne ratatouille goulash paella chili ramen"
CITIES = listed(
    "Lisbon Porto Oslo Kyoto Turin Ghent Malmo Graz Basel Leeds Nantes Vigo Split Brno Cork Riga Lyon Bergen Tartu Lugo"
)

FORMS = (
    Form("seen", "{key}'s locker is {value}.", "Which locker is {key}'s?", NAMES, numbers(1, 99)),
    Form(
        "seen", "The Wi-Fi of the {key} is called {value}.", "What is the Wi-Fi of the {key} called?",
        crossed(PLACES, PARTS), crossed(STONES, "guest staff mesh"),
    ),
    Form(
        "seen", "Train {key} leaves from platform {value}.", "Which platform does train {key} leave from?",
        numbers(10, 89), numbers(1, 24),
    ),
    Form("seen", "{key} drives a {value}.", "What does {key} drive?", NAMES, crossed(COLOURS, "Skoda Fiat Volvo Kia")),
    Form(
        "seen", "The {key} team meets on {value}.", "When does the {key} team meet?",
        ANIMALS, crossed("Monday Tuesday Wednesday Thursday Friday", "at 9,at 10:30,at 14,at 16:15", by=" "),
    ),
    Form(
        "seen", "{key} is the {value} one.", "What is {key}?",
        crossed(crossed("Ada Ben Cleo Dana", FAMILIES), "'s tea,'s bicycle,'s favourite editor,'s spare key", by=""),
        crossed(STONES, STONES),
    ),
    Form("seen", "The {key} is painted {value}.", "What colour is the {key} painted?", ROOMS, crossed("light dark", COLOURS)),
    Form(
        "seen", "{key}'s birthday is on {value}.", "When is {key}'s birthday?",
        NAMES, crossed(MONTHS, "1 4 9 13 17 22 28"),
    ),
    Form("seen", "Order {key} was shipped to {value}.", "Where was order {key} shipped to?", numbers(4700, 4799), CITIES),
    Form(
        "seen", "{key} is allergic to {value}.", "What is {key} allergic to?",
        NAMES, listed("walnuts peanuts shrimps eggs milk pollen dust cats dogs wasps latex penicillin soy wheat celery mustard"),
    ),
    Form(
        "seen", "The {key} belongs to {value}.", "Who does the {key} belong to?",
        crossed(COLOURS, "umbrella folder mug scarf suitcase"), NAMES,
    ),
    Form("seen", "Server {key} listens on port {value}.", "Which port does server {key} listen on?",
         crossed(STONES, "1 2 3 4 5 6", by="-"), numbers(8000, 8999)),
    Form(
        "seen", "The extension of the {key} desk is {value}.", "What is the extension of the {key} desk?",
        crossed("sales support billing returns travel security", "front back night day north south west east info help"),
        numbers(100, 999),
    ),
    Form(
        "seen", "Der Schrank von {key} hat die Nummer {value}.", "Welche Nummer hat der Schrank von {key}?",
        NAMES, numbers(1, 99),
    ),
    Form("unseen", "{key} sits next to {value}.", "Who does {key} sit next to?", NAMES, NAMES),
    Form(
        "unseen", "Bus {key} terminates at {value}.", "Where does bus {key} terminate?",
        numbers(20, 99), crossed("the", "harbour hospital stadium market station airport museum zoo castle lake"),
    ),
    Form(
        "unseen", "The {key} is watered every {value} days.", "How often is the {key} watered?",
        PLANTS, listed("two three four five six seven ten"),
    ),
    Form(
        "unseen", "The deadline for project {key} is {value}.", "What is the deadline for project {key}?",
        [word.title() for word in ANIMALS], crossed("3 8 12 19 25", MONTHS),
    ),
    Form(
        "unseen", "For {key} we use the {value} pan.", "Which pan do we use for {key}?",
        crossed("fish beef bean mushroom pumpkin lentil", DISHES), listed("iron copper steel enamel clay aluminium"),
    ),
    Form(
        "unseen", "{key}'s passport expires in {value}.", "When does {key}'s passport expire?",
        crossed("Ada Ben Cleo Dana Emil Fay Gus Hana Ivo June", FAMILIES), crossed(MONTHS, "2027 2028 2029 2030"),
    ),
    Form(
        "unseen", "The key to the {key} hangs {value}.", "Where does the key to the {key} hang?",
        ROOMS,
        listed("behind the door,on the red hook,by the stove,in the hall,under the stairs,at the porter's,next to the clock"),
    ),
    Form(
        "unseen", "Flight {key} departs from gate {value}.", "From which gate does flight {key} depart?",
        crossed("LH AF KL", "101 204 317 402 455 518 560 623 677 701 733 790 812 845 866 871 902 915 940 978"),
        crossed("A B C D", "1 2 5 7 11 12 18 20", by=""),
    ),
    Form(
        "unseen", "{key} takes tea with {value}.", "What does {key} take tea with?",
        NAMES, listed("honey,lemon,oat milk,sugar,ginger,cream,two sugars,nothing,cinnamon,mint,a biscuit,rum"),
    ),
    Form("unseen", "Chapter {key} was written by {value}.", "Who wrote chapter {key}?", numbers(1, 60), NAMES),
    Form(
        "unseen", "The {key} team releases from the branch {value}.", "Which branch does the {key} team release from?",
        crossed("search payments mobile login billing storage", "web core data tools quality design build test ops edge"),
        crossed("release stable main", "next lts candidate frozen beta", by="-"),
    ),
    Form(
        "unseen", "The {key} class is taught by {value}.", "Who teaches the {key} class?",
        crossed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
                "yoga judo ballet pottery chess drawing salsa swimming fencing"),
        NAMES,
    ),
    Form(
        "unseen", "{key} pays {value} euros a month.", "How much does {key} pay a month?",
        crossed("Ada Ben Cleo Dana Emil Fay Gus Hana Ivo June", FAMILIES), numbers(40, 400),
    ),
    Form(
        "unseen", "Der Code für den Raum {key} lautet {value}.", "Wie lautet der Code für den Raum {key}?",
        crossed(COLOURS, "1 2 3 4 5", by=" "), numbers(1000, 9999),
    ),
)  # fmt: skip


def told_and_asked(forms: Sequence[Form]) -> tuple[list[str], list[Lookup]]:
    """Return the statements of some forms, in the order of their telling, and the look-ups."""
    told, lookups = list[str](), list[Lookup]()
    for form in forms:
        draw, known, today = random.Random(f"7 {form.statement}"), set[str](), dict[str, str]()
        keys = draw.sample(form.keys, FACTS)
        for key in [*keys, *keys[:UPDATED]]:
            statements = (form.statement.format(key=key, value=value) for value in form.values if value != key)
            today[key] = draw.choice([statement for statement in statements if statement not in known])
            known.add(today[key])
            told.append(today[key])
        for at in (*range(ASKED_UPDATED), *range(UPDATED, UPDATED + ASKED - ASKED_UPDATED)):
            lookups.append(Lookup(form.question.format(key=keys[at]), today[keys[at]], is_updated=at < UPDATED))
    return told, lookups
