"""What may be varied beside the date: its placement, the wording around it, the user's location.

Names are values of a sweep's `[conditions]`, and of columns of every table. Add one by adding a
line.
"""

PLACEMENTS: dict[str, str] = {
    "system_start": "first line of the system message, as in the paper's prompts",
    "system_end": "last line of the system message",
    "user_start": "first line of the user's turn",
    "user_end": "last line of the user's turn",
    "template": "the chat template's own date: `native` mode; the official template, with the "
    "swept date in its slot",
}
"""Name -> where the date stands. The first four are `paper` mode: the paper's text inside the
model's special tokens, and no other date."""

WORDINGS: dict[str, str] = {
    "none": "",
    "helpful": "You are a helpful assistant.",
    "expert": "You are an expert multiple-choice question answerer.",
    "specialized": (
        "You are a highly intelligent and knowledgeable assistant specialized in answering "
        "multiple-choice questions accurately."
    ),
    "follow": "Follow the user's instructions carefully and provide accurate answers.",
    "best_ability": "Answer the user's multiple-choice questions to the best of your ability.",
}
"""Name -> system text. These six are those of Table 5's last row (arXiv 2609.36931), `none` being
the empty one."""

LOCATIONS: dict[str, str] = {
    "none": "",
    "accra": "Accra, Ghana",
    "auckland": "Auckland, New Zealand",
    "bangkok": "Bangkok, Thailand",
    "beijing": "Beijing, China",
    "berlin": "Berlin, Germany",
    "bogota": "Bogotá, Colombia",
    "buenos_aires": "Buenos Aires, Argentina",
    "cairo": "Cairo, Egypt",
    "dhaka": "Dhaka, Bangladesh",
    "istanbul": "Istanbul, Turkey",
    "jakarta": "Jakarta, Indonesia",
    "johannesburg": "Johannesburg, South Africa",
    "karachi": "Karachi, Pakistan",
    "kinshasa": "Kinshasa, Democratic Republic of the Congo",
    "lagos": "Lagos, Nigeria",
    "lima": "Lima, Peru",
    "london": "London, United Kingdom",
    "los_angeles": "Los Angeles, United States",
    "madrid": "Madrid, Spain",
    "manila": "Manila, Philippines",
    "mexico_city": "Mexico City, Mexico",
    "moscow": "Moscow, Russia",
    "mumbai": "Mumbai, India",
    "nairobi": "Nairobi, Kenya",
    "new_york": "New York City, United States",
    "paris": "Paris, France",
    "riyadh": "Riyadh, Saudi Arabia",
    "sao_paulo": "São Paulo, Brazil",
    "seoul": "Seoul, South Korea",
    "singapore": "Singapore",
    "sydney": "Sydney, Australia",
    "tehran": "Tehran, Iran",
    "tokyo": "Tokyo, Japan",
    "toronto": "Toronto, Canada",
    "warsaw": "Warsaw, Poland",
}
"""Name -> place as the prompt shows it. The paper (Appendix F) does not name its places; these are
large cities of all continents."""


def location_sentence(location: str) -> str:
    """The sentence that says where the user is; ours, as the paper does not give its wording."""
    return f"Current location: {LOCATIONS[location]}."
